"""The error of a request: a code that the page translates, a message in English, and the values in it."""

from __future__ import annotations

from typing import Any

STATUS = {
    "invalid": 422, "unseen": 422, "changed": 422, "no_word": 422, "host": 403, "origin": 403, "token": 403, "kind": 415, "large": 413,
    "memory": 413, "slow": 408, "busy": 503, "late": 504, "unknown_model": 404, "unknown_job": 404,
    "unknown_sight": 404, "cancelled": 409, "failed": 500, "crashed": 500,
    "not_writing": 422, "training": 422, "unknown_run": 422, "few_pairs": 422, "unwritable": 422, "no_checkpoint": 409,
}  # fmt: skip


class RequestError(Exception):
    """An error that is sent as JSON `{"code", "message", "values"}` with the HTTP status of its code.

    >>> RequestError("busy", "16 jobs are waiting; try again in 2 s", seconds=2).status
    503
    """

    def __init__(self, code: str, message: str, **values: float | str) -> None:
        super().__init__(message)
        self.code, self.message, self.values = code, message, values

    @property
    def status(self) -> int:
        return STATUS[self.code]

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "values": self.values}

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.values["seconds"])} if self.code == "busy" else {}
