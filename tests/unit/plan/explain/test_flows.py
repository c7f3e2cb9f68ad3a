"""The reads and writes of resources, as ``plan`` shows them."""

from __future__ import annotations

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.explain.flows import flows
from kaspr_delta.spec.loader import load_text

HEAD = "apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}, labels: {{kaspr.io/app: a}}}}\nspec:\n"
GIVEN = "tables: [{name: patients, paramName: patients}]"
MANIFESTS = "---\n".join(
    [
        (
            "apiVersion: kaspr.io/v1alpha1\nkind: KasprApp\nmetadata: {name: a}\nspec:\n  topics:\n"
            "    visits: {files: {path: /in, format: json}}\n    bills: {files: {path: /out, format: json}}\n"
        ),
        HEAD.format(kind="KasprTable", name="patients") + "  name: patients\n",
        HEAD.format(kind="KasprAgent", name="bill")
        + "  input: {topic: {name: visits}}\n  output: {topics: [{name: bills}]}\n  processors:\n    pipeline: [x]\n"
        + f"    operations: [{{name: x, {GIVEN}, map: {{python: 'def f(v, patients): return patients.get(v)'}}}}]\n",
        HEAD.format(kind="KasprAgent", name="admit")
        + "  input: {topic: {pattern: 'visit.*'}}\n  processors:\n    pipeline: [x]\n"
        + f"    operations: [{{name: x, {GIVEN}, map: {{python: 'def f(v, patients): patients[v] = 1'}}}}]\n",
        HEAD.format(kind="KasprAgent", name="other")
        + "  input: {topic: {name: a-patients-changelog}}\n  processors:\n    pipeline: [x]\n"
        + f"    operations: [{{name: x, {GIVEN}, map: {{python: 'def f(v, patients): g(patients)'}}}}]\n",
        HEAD.format(kind="KasprTask", name="report")
        + "  schedule: {interval: 1m}\n  processors:\n    pipeline: [x, y]\n"
        + f"    operations: [{{name: x, {GIVEN}, map: {{python: 'def f(v, patients): return g(patients)'}}}},"
        + " {name: y, topicSend: {nameSelector: {python: 'def f(v): return v'}}}]\n",
    ]
)


def flows_of(kind: str, name: str) -> tuple[str, str]:
    (plan,), findings = build_plans(load_text(MANIFESTS, "m.yaml"))
    assert [str(finding) for finding in findings if "error" in str(finding)] == []
    read, written = flows(plan, ResourceRef(kind, name))
    return ", ".join(read), ", ".join(written)


def test_an_agent_writes_only_tables_that_its_functions_may_write() -> None:
    assert flows_of("agent", "bill") == ("topic/visits, table/patients", "topic/bills")
    assert flows_of("agent", "admit") == ("topics that match visit.*, topic/visits", "table/patients")


def test_a_write_that_the_source_does_not_tell_is_perhaps_one() -> None:
    read, written = flows_of("agent", "other")
    assert (read.split(", ")[-1], written) == ("table/patients", "table/patients (perhaps)")


def test_a_bound_topic_reads_or_writes_its_endpoint() -> None:
    assert flows_of("topic", "visits") == ("json files in /in", "topic/visits")
    assert flows_of("topic", "bills") == ("topic/bills", "json files in /out")


def test_a_task_reads_its_tables_and_writes_its_topics() -> None:
    assert flows_of("task", "report") == ("table/patients", "topic by function")


def test_a_table_that_an_agent_only_reads_is_before_it_in_the_data_flow() -> None:
    (plan,), _ = build_plans(load_text(MANIFESTS, "m.yaml"))
    edges = {(edge.source, edge.target) for edge in plan.edges}
    assert {pair for pair in edges if "table/patients" in pair} == {
        ("table/patients", "agent/bill"),
        ("agent/admit", "table/patients"),
        ("agent/other", "table/patients"),
    }
    names = [{str(ref) for ref in stage.resources} & {"agent/admit", "agent/bill"} for stage in plan.stages]
    assert [name for name in names if name] == [{"agent/admit"}, {"agent/bill"}]
