from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException

from kaspr_delta.errors import SetupError, UsageError
from kaspr_delta.grant import Grant
from kaspr_delta.storage.namespace import UnityNamespace, Warehouse
from kaspr_delta.storage.spark.grants import grant_missing

SCHEMA = UnityNamespace("main", "shop", "v")


class Catalog:
    """A catalog that knows grants, instead of Spark; it refuses to make some if ``refuses``."""

    def __init__(self, *held: tuple[str, str], refuses: bool = False) -> None:
        self.held, self.refuses = held, refuses
        self.asked, self.made = list[str](), list[str]()

    def sql(self, statement: str) -> Catalog:
        self.asked.append(statement)
        if statement.startswith("GRANT"):
            if self.refuses:
                raise PySparkException("you are not the owner")
            self.made.append(statement)
        return self

    def collect(self) -> list[dict[str, str]]:
        return [{"Principal": who, "ActionType": privilege} for who, privilege in self.held]


def granted(catalog: Catalog, *texts: str, namespace: Any = SCHEMA) -> list[str]:
    grant_missing(catalog, namespace, [*map(Grant.of, texts)])  # type: ignore[arg-type]  # it runs statements
    return catalog.made


def test_only_missing_privileges_are_granted() -> None:
    catalog = Catalog(("analysts", "USE_SCHEMA"), ("others", "SELECT"))
    assert granted(catalog, "analysts=USE SCHEMA,SELECT", "a`b=MANAGE") == [
        "GRANT SELECT ON SCHEMA `main`.`shop` TO `analysts`",
        "GRANT MANAGE ON SCHEMA `main`.`shop` TO `a``b`",
    ]


def test_who_holds_all_is_granted_nothing() -> None:
    assert granted(Catalog(("analysts", "USE SCHEMA"), ("analysts", "SELECT")), "analysts=USE SCHEMA,SELECT") == []


def test_all_privileges_are_enough_but_for_manage_and_names_of_users_have_any_case() -> None:
    catalog = Catalog(("ann@example.com", "ALL PRIVILEGES"))
    assert granted(catalog, "Ann@Example.com=USE SCHEMA,SELECT") == []
    assert granted(catalog, "Ann@Example.com=SELECT,MANAGE") == [
        "GRANT MANAGE ON SCHEMA `main`.`shop` TO `Ann@Example.com`"
    ]


def test_a_grant_that_is_refused_names_the_statement_for_the_owner() -> None:
    with pytest.raises(SetupError, match=r"has to run GRANT SELECT ON SCHEMA `main`\.`shop` TO `x`: you are not"):
        granted(Catalog(refuses=True), "x=SELECT")


@pytest.mark.parametrize("text", ["", "SELECT", "=SELECT", "x=", "x=DROP", "x=SELECT; DROP SCHEMA y"])
def test_a_text_that_is_no_grant_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected PRINCIPAL=PRIVILEGE"):
        Grant.of(text)


def test_a_folder_has_no_grants(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="only a catalog"):
        granted(Catalog(), "x=SELECT", namespace=Warehouse(str(tmp_path)).namespace("shop"))


def test_internal_tables_have_grants_of_their_own() -> None:
    catalog, grants = Catalog(), [Grant("x", ("SELECT",))]
    spark: Any = catalog
    grant_missing(spark, UnityNamespace("main", "shop", "v", internal_name="inner"), [], grants)
    assert catalog.made == ["GRANT SELECT ON SCHEMA `main`.`inner` TO `x`"]
    with pytest.raises(UsageError, match="leave --grant-internal out"):
        grant_missing(spark, SCHEMA, [], grants)


def test_grants_that_were_there_are_asked_for_again_only_if_others_are_wanted(tmp_path: Any) -> None:
    catalog, namespace = Catalog(("x", "SELECT")), UnityNamespace("main", "shop", str(tmp_path))
    spark: Any = catalog

    def asked(*grants: Grant, trusting: bool) -> int:
        before = len(catalog.asked)
        grant_missing(spark, namespace, grants, trusting=trusting)
        return len(catalog.asked) - before

    select, manage = Grant("x", ("SELECT",)), Grant("x", ("MANAGE",))
    assert [asked(select, trusting=trusting) for trusting in (True, True, False)] == [1, 0, 1]
    assert asked(select, manage, trusting=True) == 3
    assert asked(select, manage, trusting=True) == 0
    catalog.refuses = True
    with pytest.raises(SetupError):
        asked(Grant("y", ("SELECT",)), trusting=True)
    with pytest.raises(SetupError):
        asked(Grant("y", ("SELECT",)), trusting=True)
