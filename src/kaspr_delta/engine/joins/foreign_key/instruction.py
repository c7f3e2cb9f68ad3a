"""KIP-213's instructions, which the left side gives the right side with a subscription.

| old key | new key | instruction |
|---|---|---|
| none | none | none: nothing to do |
| some | none (row deleted, or no foreign key any more) | DELETE_KEY_AND_PROPAGATE |
| none | some | inner: PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE, left: PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE |
| some | the same | as above: the answer itself replaces the former result |
| some | another | PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE to the new one, DELETE_KEY_NO_PROPAGATE to the old one |

It is recorded of every left key that a batch recomputes, also where only the right row changed.

The subscriptions table has one row per left key, so writing the new subscription does what DELETE_KEY_NO_PROPAGATE
asks for: the log holds only the other instruction. It is recorded there; no hop reads it.
"""

from __future__ import annotations

from enum import Enum

import narwhals as nw

from kaspr_delta.engine.rows.expressions import first_of, text
from kaspr_delta.plan.definition.joins import JoinType


class Instruction(str, Enum):
    """An instruction that calls for an answer of the right side."""

    # Delete the subscription and answer with null, so that the result is deleted.
    DELETE_KEY_AND_PROPAGATE = "DELETE_KEY_AND_PROPAGATE"
    # Subscribe; always answer: without a right row the former result is wrong now, or a left join shows the row.
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = "PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE"
    # Subscribe; answer only with a right row: without one there is no former result that a null would have to delete.
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = "PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE"


def instruction(join_type: JoinType, old: nw.Expr, new: nw.Expr) -> nw.Expr:
    """The instruction for a subscription that changes from one foreign key (or NULL) to another (or NULL)."""
    propagate = (
        Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE
        if join_type == "inner"
        else Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
    )
    return first_of(
        (new.is_null() & ~old.is_null(), text(Instruction.DELETE_KEY_AND_PROPAGATE.value)),
        (new.is_null(), text(None)),
        (~old.is_null() & (old != new), text(Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE.value)),
        otherwise=text(propagate.value),
    )
