"""Interception of a model's attention: one module for each way a model can call attention, and the hooks on the model itself.

`interception` installs the patches and passes every captured call to the open blocks (`watch`, `change`); `model_hooks` is what these
blocks have in common. The sources: `regard_calls` (our own layers), `torch_calls` (F.scaled_dot_product_attention and
nn.MultiheadAttention), `transformers_calls` and `transformers_masks`, `recurrent_calls` (functions that carry a state from token to
token), `own_attention` (models that multiply weights and values themselves). `torch_function_mode` detects attention that cannot be
captured.

A new source is a file here with `patches()`, which replaces the functions to be captured and returns what undoes it, and its name in
`interception.install`. Its replacement passes the call through unless `is_watched()`, else builds a `Request` (`sdpa_request` for plain
scaled dot products) and returns `request.restore(dispatch(CapturedAttention(request, run_original)).output)`.
"""
