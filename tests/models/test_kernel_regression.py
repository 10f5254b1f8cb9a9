"""Attention pooling as regression: hand-computed cases, peers, the learned width, and scikit-learn's own checks."""

import itertools

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import regard
from regard.models.kernel_regression import AveragePooling, NadarayaWatson, textbook_data

STATSMODELS = "ignore:After 0.17 or January 2028:FutureWarning"  # statsmodels speaks of its own random numbers
KERNELS = ["gaussian", "box", "epanechnikov", "triangular"]


def expected_failures(estimator):
    """Checks of scikit-learn that do not apply, with the reason."""
    if not isinstance(estimator, NadarayaWatson) or estimator.width != "learn":
        return {}
    reason = "leaving out one of two equal rows leaves the other; leaving out one row of weight 2 leaves none, so the learned widths differ"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


FIXED = [NadarayaWatson(width, kernel) for kernel in KERNELS for width in (0.0, 1.0)]


@parametrize_with_checks([*FIXED, NadarayaWatson(100.0), AveragePooling()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([NadarayaWatson("learn", kernel) for kernel in KERNELS], expected_failed_checks=expected_failures)
def test_scikit_learn_checks_of_learned_widths(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kernel", KERNELS)
def test_sample_weights_count_in_the_leave_one_out_error(kernel):
    X, y = textbook_data(30)
    weight = np.random.default_rng(0).uniform(0.1, 3, 30)
    model = NadarayaWatson(1.3, kernel).fit(X, y, sample_weight=weight)
    others = [np.delete(np.arange(30), i) for i in range(30)]
    left_out = [NadarayaWatson(1.3, kernel).fit(X[o], y[o], sample_weight=weight[o]).predict(X[i : i + 1])[0] for i, o in enumerate(others)]
    assert model.leave_one_out_error() == pytest.approx(np.average((np.array(left_out) - y) ** 2, weights=weight))
    assert NadarayaWatson("learn", kernel).fit(X, y, sample_weight=7 * weight).width_ == pytest.approx(
        NadarayaWatson("learn", kernel).fit(X, y, sample_weight=weight).width_, rel=1e-4
    )
    noisy = np.where(np.arange(30) % 2, y + 20, y)  # points of almost no weight must not decide the width
    trusted = NadarayaWatson("learn", kernel).fit(X, noisy, sample_weight=np.where(np.arange(30) % 2, 1e-9, 1.0))
    alone = NadarayaWatson("learn", kernel).fit(X[::2], y[::2])
    assert trusted.loo_error_ == pytest.approx(alone.loo_error_, rel=1e-3)


def kernel_values(kernel, u):
    return {
        "gaussian": np.exp(-(u**2) / 2),
        "box": (u <= 1).astype(float),
        "epanechnikov": np.clip(1 - u**2, 0, None),
        "triangular": np.clip(1 - u, 0, None),
    }[kernel]


def by_definition(kernel, width, X, y, Z, weight=None):
    """Σ K y / Σ K with the whole matrix; NaN where a kernel meets no point."""
    u = np.sqrt((((Z[:, None] - X[None]) * width) ** 2).sum(-1))
    k = kernel_values(kernel, u) * (1 if weight is None else weight)
    with np.errstate(invalid="ignore"):
        return (k @ y) / k.sum(1).reshape(-1, *[1] * (y.ndim - 1))


def test_two_points_by_hand():
    model = NadarayaWatson(width=2.0).fit([[0.0], [1.0]], [0.0, 1.0])
    far = np.exp(-0.5 * (0.75 * 2) ** 2)
    near = np.exp(-0.5 * (0.25 * 2) ** 2)
    assert model.predict([[0.25]])[0] == pytest.approx(far / (near + far), rel=1e-12)
    triangle = NadarayaWatson(width=1.0, kernel="triangular").fit([[0.0], [1.0]], [0.0, 1.0])
    assert triangle.predict([[0.25]])[0] == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("width", [0.7, np.array([0.5, 2.0, 1.0])], ids=["scalar", "per feature"])
@pytest.mark.parametrize("targets", [(), (2,)], ids=["one target", "two targets"])
@pytest.mark.parametrize("weighted", [False, True])
def test_follows_the_definition(kernel, width, targets, weighted):
    chance = np.random.default_rng(1)
    X, y, Z = chance.normal(size=(300, 3)), chance.normal(size=(300, *targets)), chance.normal(size=(70, 3))
    weight = chance.uniform(0.1, 3, 300) if weighted else None
    model = NadarayaWatson(width=width, kernel=kernel).fit(X, y, sample_weight=weight)
    wanted = by_definition(kernel, width, X, y, Z, weight)
    met = np.isfinite(wanted) if wanted.ndim == 1 else np.isfinite(wanted).all(1)
    assert met.mean() > 0.8
    np.testing.assert_allclose(model.predict(Z)[met], wanted[met], rtol=1e-10, atol=1e-12)


def test_points_out_of_reach_are_left_out_without_a_trace():
    """Wide data, a narrow kernel: most points are never scored, and the result is the dense one all the same."""
    chance = np.random.default_rng(2)
    X, y = chance.uniform(0, 1000, size=(3000, 2)), chance.normal(size=3000)
    Z = np.concatenate([chance.uniform(0, 1000, size=(500, 2)), [[-5000.0, 3.0], [2e6, 2e6]]])
    square = (((Z[:, None] - X[None]) * 0.3) ** 2).sum(-1)
    k = np.exp(-(square - square.min(1, keepdims=True)) / 2)
    np.testing.assert_allclose(NadarayaWatson(0.3).fit(X, y).predict(Z), (k @ y) / k.sum(1), rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings(STATSMODELS)
def test_agrees_with_dense_rbf_kernel_and_statsmodels():
    from sklearn.metrics.pairwise import rbf_kernel
    from statsmodels.nonparametric.kernel_regression import KernelReg

    X, y = textbook_data()
    Z = np.linspace(0, 5, 40)[:, None]
    ours = NadarayaWatson(width=4.0).fit(X, y).predict(Z)
    k = rbf_kernel(Z, X, gamma=0.5 * 4.0**2)
    np.testing.assert_allclose(ours, k @ y / k.sum(1), rtol=1e-12)
    theirs, _ = KernelReg(y, X, var_type="c", reg_type="lc", bw=[1 / 4.0]).fit(Z)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)


@pytest.mark.filterwarnings(STATSMODELS)
def test_learned_width_agrees_with_statsmodels_least_squares_cross_validation():
    from statsmodels.nonparametric.kernel_regression import KernelReg

    X, y = textbook_data()
    theirs = KernelReg(y, X, var_type="c", reg_type="lc", bw="cv_ls")
    model = NadarayaWatson(width="learn").fit(X, y)
    assert model.width_ == pytest.approx(1 / theirs.bw[0], rel=0.02)


def test_kernel_regression_is_attention():
    X, y = textbook_data()
    Z = np.linspace(0, 5, 9)[:, None]
    out = regard.attend(*(torch.tensor(a) for a in (Z, X, y[:, None])), score=regard.Gaussian(torch.tensor(3.0, dtype=torch.float64)))
    np.testing.assert_allclose(NadarayaWatson(3.0).fit(X, y).predict(Z), out[:, 0].numpy(), rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_are_rows_that_sum_to_one_and_make_the_prediction(kernel):
    X, y = textbook_data()
    shuffled = np.random.default_rng(0).permutation(len(X))
    X, y, Z = X[shuffled], y[shuffled], np.linspace(0, 5, 30)[:, None]
    model = NadarayaWatson(2.0, kernel).fit(X, y)
    weights = model.weights(Z)
    assert weights.shape == (30, 50)
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(weights @ y, model.predict(Z), rtol=1e-10)
    heavy = NadarayaWatson(2.0, kernel).fit(X, y, sample_weight=np.linspace(0.1, 2, 50))
    np.testing.assert_allclose(heavy.weights([[2.0], [99.0]]) @ y, heavy.predict([[2.0], [99.0]]), rtol=1e-10)
    with pytest.raises(ValueError, match="use predict"):
        NadarayaWatson(2.0, kernel).fit(np.zeros((20_000, 1)), np.zeros(20_000)).weights(np.zeros((10_000, 1)))


@pytest.mark.parametrize("kernel", KERNELS[1:])
def test_where_a_kernel_meets_nothing_the_nearest_point_answers(kernel):
    model = NadarayaWatson(width=1.0, kernel=kernel).fit([[0.0], [10.0]], [1.0, 2.0])
    assert model.predict([[4.0], [6.0], [-100.0], [0.5]]).tolist() == [1.0, 2.0, 1.0, 1.0]


def test_width_zero_is_average_pooling_and_a_large_width_the_nearest_neighbour():
    X, y = textbook_data()
    Z = np.linspace(0, 5, 30)[:, None]
    np.testing.assert_allclose(NadarayaWatson(0.0).fit(X, y).predict(Z), AveragePooling().fit(X, y).predict(Z), rtol=1e-12)
    np.testing.assert_allclose(NadarayaWatson(1e4).fit(X, y).predict(Z), KNeighborsRegressor(1).fit(X, y).predict(Z), rtol=1e-9)


def leave_one_out(kernel, width, X, y):
    return np.mean(
        [(by_definition(kernel, width, np.delete(X, i, 0), np.delete(y, i), X[i : i + 1])[0] - y[i]) ** 2 for i in range(len(X))]
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_learned_width_has_the_least_leave_one_out_error(kernel):
    X, y = textbook_data(seed=3)
    model = NadarayaWatson("learn", kernel).fit(X, y)
    assert model.loo_error_ == pytest.approx(leave_one_out(kernel, model.width_, X, y), rel=1e-9)
    others = [leave_one_out(kernel, w, X, y) for w in np.geomspace(0.2, 15, 40)]
    assert model.loo_error_ <= np.nanmin(others) * (1.02 if kernel == "box" else 1.001)  # the box's error has steps in w
    assert NadarayaWatson("learn", kernel).fit(X, y).width_ == model.width_


def test_learned_widths_per_feature_shut_out_the_feature_that_says_nothing():
    chance = np.random.default_rng(0)
    X = chance.normal(size=(300, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * chance.normal(size=300)
    one, each = NadarayaWatson("learn").fit(X, y), NadarayaWatson("learn", per_dimension=True).fit(X, y)
    assert each.width_.shape == (2,)
    assert each.width_[0] > 20 * each.width_[1]
    assert each.loo_error_ < 0.6 * one.loo_error_


def test_without_leaving_one_out_the_width_grows_without_bound():
    """A point predicted from itself is predicted best by itself alone: the error falls as long as w rises."""
    X, y = (torch.tensor(a) for a in textbook_data())
    log_width = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([log_width], lr=0.3)
    reached = []
    for _ in range(40):
        optimiser.zero_grad()
        error = (regard.attend(X, X, y[:, None], score=regard.Gaussian(log_width.exp()))[:, 0] - y).square().mean()
        error.backward()
        optimiser.step()
        reached.append((float(log_width.detach().exp()), float(error.detach())))
    widths, errors = zip(*reached, strict=True)
    assert all(b > a for a, b in itertools.pairwise(widths))
    assert widths[-1] > 20 * NadarayaWatson("learn").fit(X.numpy(), y.numpy()).width_
    assert errors[-1] < 0.05 * errors[0]


def test_sampled_queries_find_a_width_that_serves_as_well():
    X, y = textbook_data(1000)
    every, some = NadarayaWatson("learn").fit(X, y), NadarayaWatson("learn", max_queries=300).fit(X, y)
    assert some.width_ != every.width_
    Z, truth = textbook_data(300, seed=1, noise=0.0)
    assert some.score(Z, truth) > 0.99
    assert every.score(Z, truth) > 0.99


def test_beats_its_baselines_on_the_textbook_data():
    X, y = textbook_data(200, seed=0)
    Z, truth = textbook_data(200, seed=1, noise=0.0)
    learned, plain = NadarayaWatson("learn").fit(X, y), NadarayaWatson(1.0).fit(X, y)
    average, nearest = AveragePooling().fit(X, y), KNeighborsRegressor(1).fit(X, y)
    assert learned.score(Z, truth) > 0.97
    assert learned.score(Z, truth) > max(plain.score(Z, truth), nearest.score(Z, truth))
    assert average.score(Z, truth) < 0.05


def test_millions_of_points_in_linear_memory():
    import tracemalloc

    chance = np.random.default_rng(0)
    X = chance.uniform(0, 5, size=(1_000_000, 1)).astype(np.float32)
    y = (2 * np.sin(X[:, 0])).astype(np.float32)
    Z = np.linspace(0.2, 4.8, 300, dtype=np.float32)[:, None]
    model = NadarayaWatson(width=50.0).fit(X, y)
    tracemalloc.start()
    predicted = model.predict(Z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(predicted, 2 * np.sin(Z[:, 0]), atol=5e-3)
    assert predicted.dtype == np.float32
    assert peak < 60e6  # numpy's part; the matrix would be 1.2 GB


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "cosine"}, "kernel is 'cosine'; expected one of gaussian"),
        ({"width": "guess"}, "width is 'guess'; expected a number"),
        ({"width": -1.0}, "one finite number ≥ 0"),
        ({"width": [1.0, 2.0, 3.0]}, "or 1 of them, one per feature"),
    ],
)
def test_errors_say_what_to_do(options, message):
    with pytest.raises(ValueError, match=message):
        NadarayaWatson(**options).fit(*textbook_data())


def test_learning_needs_two_points():
    with pytest.raises(ValueError, match="at least 2"):
        NadarayaWatson("learn").fit([[0.0]], [1.0])


@pytest.mark.parametrize("kernel", ["gaussian", "box", "epanechnikov", "triangular"])
@pytest.mark.parametrize("width", [0.0, 0.4, 3.0, 1e4])
def test_the_leave_one_out_error_is_that_of_fits_without_each_point(kernel, width):
    X, y = textbook_data(20)
    model = NadarayaWatson(width=width, kernel=kernel).fit(X, y)
    others = [np.arange(20) != i for i in range(20)]
    alone = [NadarayaWatson(width=width, kernel=kernel).fit(X[o], y[o]).predict(X[i : i + 1])[0] for i, o in enumerate(others)]
    assert model.leave_one_out_error() == pytest.approx(np.mean((np.array(alone) - y) ** 2))


def test_leave_one_out_by_hand():
    X, y = np.array([[0.0], [1.0], [5.0]]), np.array([1.0, 3.0, 7.0])
    wanted = ((3 - 1) ** 2 + (1 - 3) ** 2 + (3 - 7) ** 2) / 3  # the last point meets none in the box: the nearest one's target
    assert NadarayaWatson(width=0.5, kernel="box").fit(X, y).leave_one_out_error() == pytest.approx(wanted)
    with pytest.raises(ValueError, match="at least 2"):
        NadarayaWatson().fit(X[:1], y[:1]).leave_one_out_error()


def test_the_learned_width_has_the_error_it_was_learned_by():
    X, y = textbook_data(60)
    for few in (10_000, 25):
        model = NadarayaWatson(width="learn", max_queries=few).fit(X, y)
        assert model.leave_one_out_error() == pytest.approx(model.loo_error_, rel=1e-9)


def test_bandwidth_is_the_inverse_of_width():
    X, y = textbook_data()
    by_width, by_bandwidth = NadarayaWatson(4.0).fit(X, y), NadarayaWatson(bandwidth=0.25).fit(X, y)
    np.testing.assert_array_equal(by_width.predict(X), by_bandwidth.predict(X))
    assert (by_bandwidth.width_, by_width.bandwidth_) == (4.0, 0.25)
    assert NadarayaWatson(0.0).fit(X, y).bandwidth_ == np.inf
    two = np.c_[X, X]
    np.testing.assert_allclose(NadarayaWatson(bandwidth=[0.5, 2.0]).fit(two, y).width_, [2.0, 0.5])
    with pytest.raises(ValueError, match="give one of them"):
        NadarayaWatson(2.0, bandwidth=0.5).fit(X, y)
    for wrong in (0, -1.0, [1.0, 2.0], "wide", np.nan):
        with pytest.raises(ValueError, match=r"bandwidth is .* expected one number > 0"):
            NadarayaWatson(bandwidth=wrong).fit(X, y)
