from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from databricks.sdk.errors import NotFound, PermissionDenied, TooManyRequests
from databricks.sdk.service.iam import (
    AccessControlRequest,
    AccessControlResponse,
    ComplexValue,
    Permission,
    PermissionLevel,
    User,
)

from kaspr_delta.errors import SetupError
from kaspr_delta.workspace.rights import Given, Right, unseen_jobs

# A service principal: the workspace calls it by its application id.
ME = User(user_name="1234-abc", display_name="admins", groups=[ComplexValue(display="data team")])


def checked(right: Right, *entries: AccessControlResponse, error: Exception | None = None) -> str:
    """The sentence of a refusal; empty if the right is there."""

    def get(kind: str, number: str) -> Any:
        assert (kind, number) == (right.kind, "7")
        if error is not None:
            raise error
        return SimpleNamespace(access_control_list=[*entries])

    client: Any = SimpleNamespace(current_user=SimpleNamespace(me=lambda: ME), permissions=SimpleNamespace(get=get))
    try:
        right.check(client)
    except SetupError as refusal:
        return str(refusal)
    return ""


def entry(level: str, **who: str) -> AccessControlResponse:
    permission = Permission(inherited=False, permission_level=PermissionLevel(level))
    return AccessControlResponse(all_permissions=[permission], **who)


@pytest.mark.parametrize("who", [{"service_principal_name": "1234-abc"}, {"group_name": "data team"}])
@pytest.mark.parametrize(
    ("right", "level", "enough"),
    [
        (Right("jobs", "7"), "CAN_MANAGE_RUN", True),
        (Right("jobs", "7"), "IS_OWNER", True),
        (Right("jobs", "7"), "CAN_VIEW", False),
        (Right("warehouses", "7"), "CAN_USE", True),
        (Right("warehouses", "7"), "CAN_VIEW", False),
    ],
)
def test_a_level_includes_those_below_it(who: dict[str, str], right: Right, level: str, enough: bool) -> None:
    expected = f"1234-abc has {level} on it, not {right.level}"
    assert checked(right, entry(level, **who)) == ("" if enough else expected)


def test_levels_of_others_do_not_count_and_a_workspace_may_not_say() -> None:
    right = Right("jobs", "7")
    others = [entry("IS_OWNER", user_name="ann"), entry("IS_OWNER", group_name="admins")]
    assert checked(right, *others) == "1234-abc has nothing on it, not CAN MANAGE RUN"
    assert "not yours" in checked(right, error=PermissionDenied("not yours"))


def test_only_jobs_that_are_not_shown_count_as_unseen() -> None:
    def get(number: int) -> None:
        if number in errors:
            raise errors[number]

    errors: dict[int, Exception] = {8: NotFound("no such job"), 9: PermissionDenied("not yours")}
    client: Any = SimpleNamespace(jobs=SimpleNamespace(get=get))
    assert unseen_jobs(client, ["7", "8", "9"]) == ["8", "9"]
    errors[7] = TooManyRequests("slow down")
    with pytest.raises(SetupError, match="slow down"):
        unseen_jobs(client, ["7"])


def test_a_permission_is_given_back_by_adding_it() -> None:
    asked: list[tuple[str, str, dict[str, Any]]] = []

    def update(kind: str, number: str, access_control_list: list[AccessControlRequest]) -> None:
        asked.append((kind, number, access_control_list[0].as_dict()))

    client: Any = SimpleNamespace(permissions=SimpleNamespace(update=update))
    Given.of("apps", "shop-prod", {"level": "CAN_USE", "group_name": "sales"}).give_back(client)
    assert asked == [("apps", "shop-prod", {"group_name": "sales", "permission_level": "CAN_USE"})]
