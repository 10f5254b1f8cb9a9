"""Published models: what their config.json says and what their tensors are called, each family described once.

`regard.cost` counts what every family costs; `Gpt` and `Bert` read the weights of those that have a loader.
"""
