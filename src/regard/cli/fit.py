"""`regard fit data.csv --target y`: kernel regression on a table, scored beside baselines, with an optional figure."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .boundary import wrong_arguments
from .options import within

if TYPE_CHECKING:
    from ..models.kernel_regression import NadarayaWatson

MIN_ROWS = 8  # so that a held-out quarter has at least two rows
MATRIX_SIZE = 200  # rows and columns of the drawn weight matrix
MAX_POINTS = 5000  # of a scatter plot


def fit(
    data: Annotated[
        Path, typer.Argument(help="a CSV file (.tsv: tab-separated): a header line, then numbers", exists=True, dir_okay=False)
    ],
    target: Annotated[str, typer.Option("--target", "-t", help="the column to predict")],
    features: Annotated[
        str | None, typer.Option("--features", help="columns to predict it from, separated by commas (default: all others)")
    ] = None,
    width: Annotated[
        str,
        typer.Option(
            "--width",
            "-w",
            help="w, the inverse bandwidth: a number, one per feature (a,b,…), or learn (leave-one-out)",
        ),
    ] = "learn",
    bandwidth: Annotated[
        str | None, typer.Option("--bandwidth", "-b", help="instead of --width: the bandwidth, a number or one per feature (a,b,…)")
    ] = None,
    kernel: Annotated[str, typer.Option("--kernel", "-k", help="gaussian, box, epanechnikov or triangular")] = "gaussian",
    per_dimension: Annotated[
        bool | None,
        typer.Option("--per-dimension/--one-width", help="one width per feature (default with several), or one for all"),
    ] = None,
    held_out: Annotated[
        float, typer.Option("--held-out", help="the share of rows held out for testing", callback=within(0.01, 0.9))
    ] = 0.25,
    seed: Annotated[int, typer.Option("--seed", help="seed of the random split", callback=within(0, 2**32 - 1))] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="save a figure of the fit: .svg, .png or .pdf")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object instead of a table")] = False,
) -> None:
    """Fit Nadaraya–Watson kernel regression to a table and print R² on held-out rows, beside average pooling and nearest neighbours."""
    try:
        import sklearn  # noqa: F401  (imported here so that a missing package gives one clear line)
    except ImportError as error:
        raise ImportError('this needs scikit-learn: pip install "regard[regression]"') from error
    with wrong_arguments():
        if out is not None:
            from ..plotting import figure_file

            figure_file(out)  # an unknown file type must fail before the fit, not after it
        names, X, y = read_table(data, target, None if features is None else [name.strip() for name in features.split(",")])
        given_width = _width(width, len(names)) if bandwidth is None else _inverse(bandwidth, width, len(names))
        width_per_feature = len(names) > 1 if per_dimension is None else per_dimension
        result, model, split = _measure(X, y, given_width, kernel, width_per_feature, held_out, seed)
        if out is not None:
            _draw(model, split, names, target, out)
    widths = model.width_ if isinstance(model.width_, float) else dict(zip(names, map(float, model.width_), strict=True))
    bandwidths = model.bandwidth_ if isinstance(model.bandwidth_, float) else dict(zip(names, map(float, model.bandwidth_), strict=True))
    report = {"rows": len(y), "features": names, "target": target, "kernel": kernel, "width": widths, "bandwidth": bandwidths, **result}
    if as_json:
        sys.stdout.write(json.dumps(report | {"picture": None if out is None else str(out)}, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(_report_text(report, learned=width == "learn" and bandwidth is None, out=out))


def read_table(path: Path, target: str, features: list[str] | None = None) -> tuple[list[str], Any, Any]:
    """Read a CSV file: the names of the features, X (N, d) and y (N,). Errors name the line and the column."""
    import numpy as np

    from ..text.pairs import read_lines

    rows = csv.reader(read_lines(path), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    header = [name.strip() for name in next(rows, [])]
    if not any(header):
        raise ValueError(f"{path}: empty; expected a line of column names, then numbers")
    for name in [target, *(features or [])]:
        if name not in header:
            raise ValueError(f"{path}: there is no column {name!r}; the columns are {', '.join(header)}")
    names = [name for name in header if name != target] if features is None else features
    if not names or target in names:
        raise ValueError(f"{path}: {target!r} needs at least one other column to be predicted from, and must not be among --features")
    columns = [header.index(name) for name in [*names, target]]
    table = []
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        location = f"{path}:{rows.line_num}"
        if len(row) != len(header):
            raise ValueError(f"{location}: {len(row)} cells, but the header has {len(header)}")
        table.append([_number(row[column], header[column], location) for column in columns])
    if len(table) < MIN_ROWS:
        raise ValueError(f"{path}: {len(table)} rows; at least {MIN_ROWS} are needed, since some are held out for testing")
    numbers = np.array(table)
    return names, numbers[:, :-1], numbers[:, -1]


def _number(cell: str, column: str, location: str) -> float:
    """A cell as a finite number, or an error that names its line and column."""
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        content = repr(cell.strip()) if cell.strip() else "empty"
        raise ValueError(
            f"{location}: column {column!r} is {content}; expected a number (remove the row, or leave the column out with --features)"
        )
    return value


def _width(text: str, count: int) -> Any:
    """The value of --width: "learn", a number, or one number per feature."""
    if text == "learn":
        return text
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--width is {text!r}; expected learn, a number, or {count} numbers separated by commas") from None
    return numbers[0] if len(numbers) == 1 else numbers


def _inverse(bandwidth: str, width: str, count: int) -> Any:
    """The width of --bandwidth; --width must then be left out."""
    if width != "learn":
        raise ValueError("give --width or --bandwidth, not both (width = 1/bandwidth)")
    try:
        numbers = [float(part) for part in bandwidth.split(",")]
    except ValueError:
        numbers = [0.0]
    if len(numbers) not in (1, count) or not all(number > 0 for number in numbers):
        raise ValueError(f"--bandwidth is {bandwidth!r}; expected a number > 0, or {count} of them separated by commas")
    return 1 / numbers[0] if len(numbers) == 1 else [1 / number for number in numbers]


def _measure(
    X: Any, y: Any, width: Any, kernel: Any, per_dimension: bool, held_out: float, seed: int
) -> tuple[dict[str, Any], NadarayaWatson, Any]:
    """Fit the model and its baselines; return their R² on held-out rows, the model and the split."""
    from sklearn.model_selection import train_test_split
    from sklearn.neighbors import KNeighborsRegressor

    from ..models.kernel_regression import AveragePooling, NadarayaWatson

    split = train_test_split(X, y, test_size=held_out, random_state=seed)
    X_fit, X_test, y_fit, y_test = split
    model = NadarayaWatson(width, kernel, per_dimension=per_dimension).fit(X_fit, y_fit)
    neighbours = min(5, len(X_fit))
    models = {
        "average pooling": AveragePooling().fit(X_fit, y_fit),
        f"{neighbours} nearest": KNeighborsRegressor(neighbours).fit(X_fit, y_fit),
        "width 1": NadarayaWatson(1.0, kernel).fit(X_fit, y_fit),
        "kernel regression": model,
    }
    scores = {name: float(fitted.score(X_test, y_test)) for name, fitted in models.items()}
    error = getattr(model, "loo_error_", None)
    return {"held_out": len(y_test), "r2": scores, "leave_one_out_error": error}, model, split


def _report_text(report: dict[str, Any], *, learned: bool, out: Path | None) -> str:
    """The report as lines of text."""
    rows = report["rows"] - report["held_out"]
    counts = f"{rows:,} rows fitted, {report['held_out']:,} held out"
    lines = [f"{report['target']} from {', '.join(report['features'])}: {report['kernel']} kernel, {counts}", ""]
    lines += [f"  {name:<18} R² {score:7.4f}" for name, score in report["r2"].items()]
    learned_text = " (learned, leave-one-out)" if learned else ""
    lines += [
        "",
        f"  w {_numbers(report['width'])}, the inverse bandwidth{learned_text}",
        f"  bandwidth 1/w {_numbers(report['bandwidth'])}",
    ]
    lines += [] if out is None else [f"  figure {out}"]
    return "\n".join(lines) + "\n"


def _numbers(value: float | dict[str, float]) -> str:
    """One number, or one per feature with its name."""
    return f"{value:.4g}" if isinstance(value, float) else ", ".join(f"{name} {number:.4g}" for name, number in value.items())


def _draw(model: NadarayaWatson, split: Any, names: list[str], target: str, out: Path) -> None:
    """Draw the data and the fit on the left, the weight matrix on the right."""
    import numpy as np

    from ..colours import HEADS, blue, hexadecimal
    from ..plotting import blank, figure_style, save_figure

    X_fit, X_test, y_fit, y_test = split
    line, faint = hexadecimal(HEADS[0]), "#8a8a8a"
    with figure_style([target, *names]):
        from matplotlib.colors import LinearSegmentedColormap

        figure = blank(6.9, 3.0)
        left, right = figure.subplots(1, 2)
        sample = np.random.default_rng(0).permutation(len(X_fit))[:MAX_POINTS]
        if len(names) == 1:
            queries = np.linspace(X_fit.min(), X_fit.max(), MATRIX_SIZE)[:, None]
            left.scatter(X_fit[sample], y_fit[sample], s=8, color=faint, label="fitted rows", linewidths=0)
            left.scatter(
                X_test[:MAX_POINTS], y_test[:MAX_POINTS], s=12, facecolors="none", edgecolors=faint, linewidths=0.6, label="held out"
            )
            left.plot(queries, model.predict(queries), color=line, label="fit")
            left.set(xlabel=names[0], ylabel=target)
            left.legend(frameon=False)
            keys, label = sample[:MATRIX_SIZE][np.argsort(X_fit[sample[:MATRIX_SIZE], 0], kind="stable")], names[0]
        else:
            tested = X_test[:MAX_POINTS]
            left.scatter(y_test[:MAX_POINTS], model.predict(tested), s=8, color=line, linewidths=0)
            limits = [float(y_test.min()), float(y_test.max())]
            left.plot(limits, limits, color=faint, linewidth=0.8)
            left.set(xlabel=f"{target}, held out", ylabel="predicted")
            queries, label = tested[np.argsort(y_test[:MAX_POINTS], kind="stable")][:: max(1, len(tested) // MATRIX_SIZE)], target
            keys = sample[:MATRIX_SIZE][np.argsort(y_fit[sample[:MATRIX_SIZE]], kind="stable")]
        ramp = LinearSegmentedColormap.from_list("regard", ["#ffffff", *(hexadecimal(blue(i / 16, dark=False)) for i in range(1, 17))])
        weights = _weights(model, queries, keys)
        picture = right.imshow(weights, cmap=ramp, vmin=0, aspect="auto", interpolation="nearest")
        right.set(xlabel=f"points, by {label}", ylabel=f"queries, by {label}", xticks=[], yticks=[])
        figure.colorbar(picture, ax=right, label="weight (linear)", pad=0.01)
        save_figure(figure, out)


def _weights(model: NadarayaWatson, queries: Any, keys: Any) -> Any:
    """The columns `keys` of the weight matrix, computed in blocks of queries so that the full matrix is never in memory."""
    import numpy as np

    step = max(1, 10**7 // len(model.X_))
    return np.concatenate([model.weights(queries[i : i + step])[:, keys] for i in range(0, len(queries), step)])
