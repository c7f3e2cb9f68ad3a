"""The tables that web views read. The columns of foreign tables come from the tables themselves."""

from __future__ import annotations

from dataclasses import dataclass

from kaspr_delta.control.source_tables import known
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import TablePlan, WebViewPlan
from kaspr_delta.web.store import Store


@dataclass(frozen=True, slots=True)
class KnownTables:
    """Tables by name, and for each table that cannot be read the reason."""

    tables: dict[str, TablePlan]
    reasons: dict[str, str]

    @classmethod
    def of(cls, store: Store, plan: Plan) -> KnownTables:
        """The tables that the views of an application read, with their current columns."""
        tables, reasons = dict[str, TablePlan](), dict[str, str]()
        for name in sorted({table for view in plan.web_views for table in view.tables}):
            found = known(plan.known_table(name), store.columns)
            if isinstance(found, str):
                reasons[name] = found
            else:
                tables[name] = found
        return cls(tables, reasons)

    def reason_to_wait(self, view: WebViewPlan) -> str | None:
        """Why a view cannot answer; None if it can."""
        waiting = [f"table/{table} waits: {self.reasons[table]}" for table in view.tables if table in self.reasons]
        return "; ".join(waiting) or None
