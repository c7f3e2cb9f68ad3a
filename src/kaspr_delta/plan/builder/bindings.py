"""Resolve ``spec.topics`` of a KasprApp to bindings: fill in defaults, report contradictions."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.builder.topics import NamedTopic
from kaspr_delta.plan.definition.bindings import BindingPlan, EndpointPlan, FilesPlan, KafkaPlan, LoginPlan, SecretPlan
from kaspr_delta.plan.names import delta_name, export_table, ingest_table
from kaspr_delta.spec.app import AppSpec
from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.bindings import INPUT_ONLY, Direction, KafkaBinding, TopicBinding
from kaspr_delta.spec.diagnostics import Report
from kaspr_delta.spec.kubernetes import Authentication, PasswordSecret
from kaspr_delta.spec.near import suggestion
from kaspr_delta.spec.patterns import matching


def bound_topics(
    application: DeclaredApplication, named: Collection[NamedTopic], changelogs: Mapping[str, str], report: Report
) -> dict[str, BindingPlan]:
    """The bindings of topics, by topic name. Topics that live on Delta alone have none."""
    app = application.app
    if app is None:
        return {}
    bound: dict[str, BindingPlan] = {}
    for name, binding in app.spec.topics.items():
        at = ("topics", name)
        if name in changelogs:
            message = f"'{name}' is the changelog of table '{changelogs[name]}', which lives on Delta"
            report.error(app.key_at(*at), message, "bind a topic, and let an agent write the table")
            continue
        senders = [topic for topic in named if topic.name == name and topic.sent]
        direction: Direction = binding.direction or ("output" if senders else "input")
        if direction == "input":
            _warn_of_unused(application, app, name, named, report)
        if direction == "input" and senders:
            message = f"'{name}' is read from elsewhere, and is sent to at {senders[0].location}"
            hint = "use one topic for the input and another one for the output"
            report.error(app.key_at(*at, "direction"), message, hint)
        if binding.files is not None and direction == "output" and binding.direction is None:
            given = binding.files.model_dump(by_alias=True, exclude_unset=True)
            for written in sorted(set(INPUT_ONLY) & given.keys()):
                message = f"'{written}' tells how files are read, and the topic is sent to at {senders[0].location}"
                report.error(app.key_at(*at, "files", written), message, "remove it")
        endpoint = _endpoint(app, at, binding, direction, report)
        if endpoint is not None:
            log = ingest_table(name) if direction == "input" else export_table(name)
            bound[name] = BindingPlan(direction, endpoint, log, app.key_at(*at))
    return bound


def _warn_of_unused(
    application: DeclaredApplication, app: Declared[AppSpec], name: str, named: Collection[NamedTopic], report: Report
) -> None:
    """Warn of an input topic that no resource reads: it is most likely misspelt. Functions may name output topics."""
    known = {topic.name for topic in named if not topic.binding}
    patterns = [one.spec.input.topic.pattern for one in application.agents.values() if one.spec.input.topic]
    if name not in known and not any(matching(p, [name]) for p in patterns if p):
        hint = suggestion(name, known, "topics are")
        report.warning(app.key_at("topics", name), f"no resource reads topic '{name}'", hint)


def _endpoint(
    app: Declared[AppSpec], at: FieldPath, binding: TopicBinding, direction: Direction, report: Report
) -> EndpointPlan | None:
    if binding.kafka is not None:
        return _kafka(app, at, binding.kafka, report)
    if binding.files is not None:
        files = binding.files
        if files.columns is None and files.format != "json" and direction == "input":
            hint = "for example `schema: id STRING, price DECIMAL(10, 2)`"
            report.error(app.key_at(*at, "files"), f"{files.format} files need a 'schema' to be read", hint)
        header, delimiter = files.header is not False, (files.delimiter or ",").replace("\\t", "\t")
        path, schema = app.path(files.path, report, *at, "files", "path").rstrip("/") or "/", files.columns or ""
        return FilesPlan(path, files.format, schema, files.key, files.timestamp, header, delimiter)
    return None


def _kafka(app: Declared[AppSpec], at: FieldPath, kafka: KafkaBinding, report: Report) -> KafkaPlan | None:
    spec, below, name = app.spec, (*at, "kafka"), str(at[-1])
    servers = kafka.bootstrap_servers or spec.bootstrap_servers
    if servers is None:
        message = f"topic '{name}' is bound to Kafka, and nothing says where that is"
        report.error(app.key_at(*below), message, "add 'bootstrapServers' here, or to the spec of the KasprApp")
    # TLS and login of the application are for its own servers: its password must not go to other ones.
    shared = kafka.bootstrap_servers is None
    own_tls, own_login = not shared or kafka.tls is not None, not shared or kafka.authentication is not None
    tls = kafka.tls if own_tls else spec.tls
    ca_file = tls.ca_file if tls else None
    if ca_file is not None:
        ca_file = app.path(ca_file, report, *(below if own_tls else ()), "tls", "caFile")
    given = kafka.authentication if own_login else spec.authentication
    login = None
    if given is not None:
        login = _login(app, (*below, "authentication") if own_login else ("authentication",), given, report)
        if login is None:
            return None
    if servers is None:
        return None
    return KafkaPlan(
        topic=kafka.topic or name,
        bootstrap_servers=",".join(part.strip() for part in servers.split(",") if part.strip()),
        tls=tls is not None,
        ca_file=ca_file,
        login=login,
        starting_offsets=kafka.starting_offsets,
        fail_on_data_loss=kafka.fail_on_data_loss,
    )


def _login(app: Declared[AppSpec], at: FieldPath, given: Authentication, report: Report) -> LoginPlan | None:
    secret = given.password_secret
    needed = {
        "type": given.type,
        "username": given.username,
        "passwordSecret": secret and (secret.environment or (secret.secret_name and secret.password_key)),
    }
    missing = [name for name, value in needed.items() if not value]
    if missing:
        message = f"to log in to Kafka, 'authentication' needs '{missing[0]}'"
        hint = "for example `{type: scram-sha-512, username: app, passwordSecret: {environment: KAFKA_PASSWORD}}`"
        report.error(app.key_at(*at), message, hint)
        return None
    assert given.type is not None  # noqa: S101  it is not missing
    return LoginPlan(given.type.upper(), given.username or "", _secret(given.password_secret or PasswordSecret()))


def _secret(given: PasswordSecret) -> SecretPlan:
    """The secret. Outside Databricks it is the environment variable named after the secret and its key, in capitals."""
    if given.environment:
        return SecretPlan(given.environment)
    named = delta_name(f"{given.secret_name}_{given.password_key}").upper()
    return SecretPlan(named, given.secret_name, given.password_key)
