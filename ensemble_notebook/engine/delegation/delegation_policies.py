"""Asks one policy about one delegation; whatever a policy does wrong is a refusal, never a silent yes (E24)."""

from __future__ import annotations

from typing import Any

from ensemble_notebook.domain.definitions.delegation import (
    DelegationContext,
    DelegationPolicyResult,
    DelegationRequest,
    PolicyVerdict,
)
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import summarize_error


class DelegationRefused(Exception):  # noqa: N818 - no error
    """A delegation that is not to be. `error` is what broke, where nobody refused and something did."""

    def __init__(self, reason: str, error: Exception | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


async def apply_policy(
    policy: Any, request: DelegationRequest, context: DelegationContext, caller: FunctionCaller
) -> DelegationRequest:
    """The request to go on with: the same one, or what the policy made of it.

    Raises:
        DelegationRefused: the policy rejects, raises, or says nothing that can be understood.
    """
    name = getattr(policy, "__name__", type(policy).__name__)
    function = getattr(policy, "evaluate", None) or policy
    try:
        result = await caller.call(f"policy {name}", function, request, context)
    except Exception as error:
        raise DelegationRefused(f"Policy {name!r} failed: {summarize_error(error)}", error) from error
    match result:
        case DelegationPolicyResult(verdict=PolicyVerdict.ALLOW):
            return request
        case DelegationPolicyResult(verdict=PolicyVerdict.REJECT):
            raise DelegationRefused(
                str(result.reason or "").strip() or f"Policy {name!r} rejected it, and gave no reason"
            )
        case DelegationPolicyResult(verdict=PolicyVerdict.MODIFY, request=DelegationRequest() as changed):
            return changed
    fault = f"Policy {name!r} must return allow(), reject(reason) or modify(request), and returned {_describe(result)}"
    raise DelegationRefused(fault, TypeError(fault))


def _describe(result: Any) -> str:
    if isinstance(result, DelegationPolicyResult):
        return f"{result.verdict} of {type(result.request).__name__}"
    return "None" if result is None else type(result).__name__
