"""The OpenAPI description holds: schemathesis asks what it allows and what it forbids, and every answer is one it promised."""

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis to hold the studio to its OpenAPI description")
EXAMPLES = settings(max_examples=5, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
# Not among them: that everything the schema allows is accepted. Matrices that do not fit each other are beyond a schema.
NAMES = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
CHECKS = [getattr(schemathesis.checks, name) for name in NAMES]
ASIDE = ("/api/cost/measure", "/api/train/start", "/api/train/resume")  # what measures or trains is tested on its own


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_every_answer_was_promised(studio: Any, mode: str) -> None:
    schema = schemathesis.openapi.from_dict(studio.get("/api/openapi.json").json())
    tried = 0

    def hold(operation: Any) -> None:
        @EXAMPLES
        @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))
        def ask(case: Any) -> None:
            nonlocal tried
            tried += 1
            request = case.as_transport_kwargs(base_url="http://127.0.0.1:8500")
            wanted = {
                name: request[name] for name in ("method", "url", "params", "json", "data", "headers") if request.get(name) is not None
            }
            answer = studio.request(**{("content" if name == "data" else name): value for name, value in wanted.items()})
            # 413 refuses too, though the check of refusals does not know it.
            checks = [check for check in CHECKS if answer.status_code != 413 or check.__name__ != "negative_data_rejection"]
            case.validate_response(answer, checks=checks)

        with contextlib.suppress(Unsatisfiable):  # what takes nothing cannot be asked wrongly
            ask()

    for result in schema.get_all_operations():
        if (operation := result.ok()).path not in ASIDE:
            hold(operation)
    assert tried > 30


def test_everything_is_described(studio: Any) -> None:
    paths = studio.get("/api/openapi.json").json()["paths"]
    assert {
        "/api/translate",
        "/api/look",
        "/api/look/tile",
        "/api/look/what-if",
        "/api/look/meanings",
        "/api/steps",
        "/api/regression/fit",
    } <= set(paths)
    for path, methods in paths.items():
        for method, operation in methods.items():
            assert operation["summary"], (path, method)
            assert "403" in operation["responses"]
            assert "422" in operation["responses"]
