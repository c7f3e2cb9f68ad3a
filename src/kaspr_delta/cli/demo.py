"""``kaspr-delta demo``: order enrichment end to end, and the effect of changes on both sides of the join."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from kaspr_delta.cli.progress import results, show_report, table_of
from kaspr_delta.cli.target import Target, starting_spark
from kaspr_delta.errors import SetupError, UsageError

if TYPE_CHECKING:
    from kaspr_delta.application import Application
    from kaspr_delta.runtime.report import RunReport


_PRODUCTS = 40
_ORDERS = 300
_JOIN = "orders-products-join"
_SHOWN = 6

Results = Mapping[Any, Any]


def demo(target: Target) -> None:
    """Run the order-enrichment example: data in, joined table and enriched topic out, then a second wave of changes.

    Works in a folder `demo` of the warehouse, which is emptied first. Everything in it can be looked at afterwards.

    For example:

        kaspr-delta demo
        kaspr-delta demo --warehouse /tmp/demo
    """
    from kaspr_delta.application import Application

    if not target.location.is_here:
        raise UsageError("the demo runs on this machine: give a folder as --warehouse")
    folder = Path(target.location.folder) / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    out = results()
    bundle = bundle_folder("order-system")
    because = "the first time it downloads Delta's jars, about 90 MB"
    application = Application.open(
        bundle, warehouse=folder, app=target.app, starting=lambda start, _: starting_spark(start, because)
    )
    _first_wave(application, bundle, out)
    _second_wave(application, out)
    out.print(
        f"\nLook around:\n  {_command()} table {_JOIN} dump --warehouse {_shown(folder)}\n"
        f"  {_command()} consume enriched-orders --warehouse {_shown(folder)}\n"
        f"  {_command()} plan {_shown(bundle)}"
    )


def _first_wave(application: Application, bundle: Path, out: Console) -> None:
    out.print(f"\n[bold]1. {_PRODUCTS} products and {_ORDERS} orders arrive[/bold] on raw-products and raw-orders")
    generate = data_generator(bundle)
    application.topic("raw-products").produce(generate.products(_PRODUCTS))
    application.topic("raw-orders").produce(generate.orders(_ORDERS, _PRODUCTS))
    report = _run(application)
    show_report(report, out)
    results = application.join(_JOIN).to_dict()
    out.print(f"\n[bold]2. The joined table[/bold] {_JOIN}: {len(results)} rows, the first {_SHOWN}")
    table = table_of(("order", "product", "name", "price", "quantity"))
    for key, row in list(results.items())[:_SHOWN]:
        left, right = row["left"], row["right"]
        table.add_row(key, left["product_id"], right["name"], str(right["price"]), str(left["quantity"]))
    out.print(table)
    enriched = application.topic("enriched-orders").records()
    out.print(f"\n[bold]3. The enriched topic[/bold] enriched-orders: {len(enriched)} records, the last one")
    out.print_json(data=enriched[-1]["value"])


def _run(application: Application) -> RunReport:
    from kaspr_delta.cli.run_display import shown

    with shown("auto", keep=False) as listener:
        return application.run(listener=listener)


def _second_wave(application: Application, out: Console) -> None:
    before = application.join(_JOIN).to_dict()
    seen = len(application.topic("enriched-orders").records())
    repriced, moved, target, deleted = _choose(before)
    product = before[next(k for k, row in before.items() if row["left"]["product_id"] == repriced)]["right"]
    order = before[moved]["left"]
    out.print(
        f"\n[bold]4. Three changes[/bold]: {repriced} gets another price, {moved} moves from {order['product_id']}"
        f" to {target}, {deleted} is deleted"
    )
    application.topic("raw-products").produce(
        [{"key": repriced, "value": {**product, "price": round(product["price"] + 10, 2)}}]
    )
    application.topic("raw-orders").produce(
        [{"key": moved, "value": {**order, "product_id": target}}, {"key": deleted, "value": None}]
    )
    _run(application)
    after = application.join(_JOIN).to_dict()
    table = table_of(("order", "before", "after", "because"))
    for key, was, now in _differences(before, after):
        reason = {moved: "the order changed", deleted: "the order was deleted"}.get(key, "its product changed")
        table.add_row(key, _row_text(was), _row_text(now), reason)
    out.print(table)
    new = application.topic("enriched-orders").records()[seen:]
    untouched = len([key for key in before if before[key] == after.get(key)])
    out.print(f"enriched-orders got {len(new)} new records; the {untouched} other rows were not touched")


def _choose(results: Results) -> tuple[str, str, str, str]:
    """A product with about three orders to get another price, an order to move, its new product, an order to delete."""
    count = Counter(row["left"]["product_id"] for row in results.values())
    repriced = min(count, key=lambda product: (abs(count[product] - 3), product))
    others = [key for key, row in results.items() if row["left"]["product_id"] != repriced]
    moved, deleted = others[0], others[1]
    target = next(p for p in sorted(count) if p not in {repriced, results[moved]["left"]["product_id"]})
    return repriced, moved, target, deleted


def _differences(before: Results, after: Results) -> Iterator[tuple[str, Any, Any]]:
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield key, before.get(key), after.get(key)


def _row_text(row: Any) -> str:
    if row is None:
        return "no row"
    left, right = row["left"], row["right"]
    return f"{left['quantity']} x {right['name']} at {right['price']}"


def _command() -> str:
    """The command as it can be typed here: with its folder if that is not on the PATH."""
    if shutil.which("kaspr-delta"):
        return "kaspr-delta"
    return str(_shown(Path(sys.executable).with_name("kaspr-delta")))


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def bundle_folder(name: str) -> Path:
    """The folder of an application that comes with this package. Raises SetupError when it is not there."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "bundles" / name, package.parents[1] / "bundles" / name):
        if folder.is_dir():
            return folder
    raise SetupError(f"the example application {name!r} is not part of this installation: clone the repository for it")


def data_generator(bundle: Path) -> Any:
    """The application's own data generator, a module beside its manifests. Raises SetupError without one."""
    spec = importlib.util.spec_from_file_location("order_system_data", bundle / "generate.py")
    if spec is None or spec.loader is None:
        raise SetupError(f"{bundle} has no generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
