"""The answer of DESCRIBE TABLE EXTENDED, of open Spark and as Databricks' users show it."""

from __future__ import annotations

from kaspr_delta.storage.spark.description import Description

COLUMNS = [("id", "string", "the id"), ("Type", "int", None), ("ssn", "string", None), ("", "", "")]
DETAILS = [("# Detailed Table Information", "", ""), ("Type", "MANAGED", ""), ("Provider", "delta", "")]


def described(*rows: tuple[str, str | None, str | None]) -> Description:
    return Description.of([*COLUMNS, *DETAILS, *rows])


def test_labels_are_read_behind_the_columns() -> None:
    found = described(("Comment", "Orders", ""), ("Table Properties", "[delta.enableRowTracking=true,x,y=a]=b,c]", ""))
    assert (found.kind, found.provider, found.comment) == ("MANAGED", "delta", "Orders")
    assert (found.tracks_rows, found.has_change_feed) == (True, False)
    assert not found.filters_rows
    assert found.masked == ()
    assert found.column_comments == (("id", "the id"),)


def test_a_property_is_found_by_its_whole_name_and_value() -> None:
    found = described(("Table Properties", "[delta.enableChangeDataFeed=true,owner=trueman]", ""))
    assert found.has_change_feed
    assert not found.has("owner", "true")
    assert not found.has("enableChangeDataFeed", "true")


def test_row_filters_and_masks_are_found() -> None:
    a_filter = ("Row Filter", "`main`.`s`.`own_region` ON (region)", "")
    assert described(a_filter).filters_rows
    assert described(("# Row Filter", "", ""), ("Function", "f", "")).filters_rows
    masks = [("# Column Masks", "", ""), ("ssn", "`main`.`s`.`hidden`", ""), ("Total Size (bytes)", "1", "")]
    assert described(*masks).masked == ("ssn",)
    assert described(*masks, ("", "", ""), ("# Other", "", ""), ("id", "x", "")).masked == ("ssn",)


def test_a_view_has_no_provider() -> None:
    found = Description.of([("id", "string", None), ("", "", ""), DETAILS[0], ("Type", "VIEW", "")])
    assert (found.kind, found.provider, found.properties) == ("VIEW", "", "")
