"""scikit-learn's own checks for every width and kernel of the regressors; prints one JSON line a check, as samples.py does."""

from __future__ import annotations

import json
import sys
import warnings

from sklearn.utils.estimator_checks import check_estimator

from regard.models import NadarayaWatson
from regard.models.kernel_regression import AveragePooling

KERNELS = ("gaussian", "box", "epanechnikov", "triangular")


def main(quick: bool) -> None:
    warnings.simplefilter("ignore")
    widths = (1.0,) if quick else (0.0, 1.0, 100.0, "learn")
    estimators = [NadarayaWatson(width, kernel) for kernel in KERNELS[: 1 if quick else 4] for width in widths]
    for estimator in [*estimators, AveragePooling()]:
        for i, result in enumerate(check_estimator(estimator, on_fail=None)):
            name = f"{result['check_name']}[{i}-{estimator!r}]"
            print(json.dumps({"test": name, "peer": "passed", "outcome": result["status"], "message": str(result["exception"])[:300]}))


if __name__ == "__main__":
    main("--quick" in sys.argv)
