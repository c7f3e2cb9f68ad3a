"""Every field of every kind is accepted and kept."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from kaspr_delta.spec.loader import load_text

CODE = "{python: 'def f(value): return value', entrypoint: f}"
TARGET = f"""\
keySelector: {CODE}
valueSelector: {CODE}
partitionSelector: {CODE}
headersSelector: {CODE}
predicate: {CODE}
keySerializer: raw
valueSerializer: binary
ack: true
declare: true
partitions: 2
retention: 60
compacting: true
deleting: false
replicas: 3
config: {{a: b}}
"""


def below(text: str, blanks: int) -> str:
    return text.replace("\n", "\n" + " " * blanks).strip()


PROCESSORS = f"""\
processors:
  pipeline: [one, two, three, one]
  init: {{python: "import json"}}
  operations:
    - name: one
      tables:
        - {{name: orders, paramName: orders}}
        - {{name: products, paramName: products}}
      map: {CODE}
    - name: two
      filter: {CODE}
    - name: three
      topicSend:
        nameSelector: {CODE}
        passThrough: true
        {below(TARGET, 8)}
"""
SPECS = {
    "KasprApp": """\
name: shop
description: A shop
version: 0.11.18
image: kaspr:1
replicas: 0
bootstrapServers: a:9092,b:9092
tls: {}
authentication:
  type: plain
  username: u
  passwordSecret: {secretName: s, passwordKey: k}
config:
  topicReplicationFactor: 1
  topicPartitions: 6
  topicAllowDeclare: true
  keySerializer: pickle
  valueSerializer: json
  tableDir: tables
  webPort: 6065
  webBasePath: ""
  webMetricsBasePath: ""
  storeRocksdbWriteBufferSize: 1
  storeRocksdbTargetFileSizeBase: 1
  storeRocksdbMaxWriteBufferNumber: 3
  storeRocksdbBloomFilterSize: 3
  storeRocksdbBlockCacheSize: 1
  storeRocksdbBlockCacheCompressedSize: 1
  storeRocksdbSetCacheIndexAndFilterBlocks: false
  schedulerEnabled: true
  schedulerCronEnabled: true
  schedulerTopicPartitions: 1
  schedulerDebugStatsEnabled: false
  schedulerCheckpointSaveIntervalSeconds: 1.3
  schedulerDispatcherDefaultCheckpointLookbackDays: 7
  schedulerDispatcherCheckpointInterval: 10
  schedulerJanitorCheckpointInterval: 10
  schedulerJanitorCleanIntervalSeconds: 3
  schedulerJanitorHighwaterOffsetSeconds: 14400
  schedulerCronTickIntervalSeconds: 30
  schedulerCronTickBufferSeconds: 600
  schedulerCronMinIntervalSeconds: 5
  somethingElse: {a: 1}
resources: {requests: {cpu: 1}, limits: {memory: 1Gi}, claims: [{name: c}]}
livenessProbe:
  {failureThreshold: 3, initialDelaySeconds: 15, periodSeconds: 10, successThreshold: 1, timeoutSeconds: 5}
readinessProbe: {failureThreshold: 3}
storage: {type: ephemeral, class: gp3, size: 5Gi, deleteClaim: true}
pythonPackages:
  packages: [requests>=2, "git+https://${TOKEN}@example.org/x.git"]
  indexUrl: https://example.org/simple
  extraIndexUrls: [http://example.org/more]
  trustedHosts: [example.org]
  credentials: {secretRef: {name: s, usernameKey: u, passwordKey: p}}
  cache:
    type: gcs
    enabled: true
    storageClass: c
    size: 1Gi
    accessMode: ReadWriteMany
    deleteClaim: false
    gcs: {bucket: b, secretRef: {name: s, key: k}, prefix: p/, maxArchiveSize: 2Gi}
  installPolicy: {retries: 0, timeout: 60, onFailure: allow}
  resources: {requests: {cpu: 1}}
template:
  serviceAccount: {metadata: {labels: {a: b}}}
  pod: {metadata: {annotations: {a: b}}, affinity: {}, tolerations: []}
  service: {metadata: {}}
  kasprContainer:
    env: [{name: A, value: b}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]
    volumeMounts: []
  pythonPackagesInitContainer: {securityContext: {}}
""",
    "KasprTable": f"""\
name: orders
description: Orders
global: true
defaultSelector: {CODE}
keySerializer: raw
valueSerializer: json
partitions: 6
extraTopicConfigs: {{cleanup.policy: compact}}
options: {{a: b}}
storage:
  clusterBy: [window_start, timestamp]
  properties: {{delta.enableRowTracking: "true"}}
  tags: {{domain: sales}}
  primaryKey: true
window:
  hopping: {{size: 5m, step: 250ms, expires: 2h}}
  relativeTo: custom
  relativeToSelector: {CODE}
  grace: 0s
  emit: close
""",
    "KasprJoin": f"""\
name: j
description: Join
leftTable: orders
rightTable: products
extractor: {CODE}
type: left
storage: {{clusterBy: auto, tags: {{domain: sales}}}}
outputChannel: joined
""",
    "KasprAgent": f"""\
name: a
description: Agent
isolatedPartitions: true
input:
  declare: true
  start: latest
  topic:
    name: a, b
    keySerializer: json
    valueSerializer: raw
    declare: true
    partitions: 1
    retention: 60
    compacting: true
    deleting: false
    replicas: 1
    config: {{a: b}}
  take: {{max: 100, within: 5s}}
output:
  topics:
    - name: out
      {below(TARGET, 6)}
{PROCESSORS}
""",
    "KasprWebView": f"""\
name: v
description: View
request: {{method: POST, path: "/orders/{{id:[0-9]{{1,4}}}}/{{part}}"}}
response:
  contentType: application/json
  headers: {{cache-control: no-store}}
  bodySelector: {{onSuccess: {CODE}, onError: {CODE}}}
  statusCodeSelector: {{onError: {CODE}}}
{PROCESSORS}
""",
    "KasprTask": f"""\
name: t
description: Task
onLeader: true
schedule: {{cron: "*/15 * * * *", timezone: Europe/Berlin}}
{PROCESSORS}
""",
}


STREAM = "leftStream: {topic: a, keySerializer: raw, valueSerializer: json, partitions: 4}\n"
# Fields that exclude those above or one another.
MORE = (
    (
        "KasprTable",
        f"""\
from: {{topic: raw-orders, keySerializer: raw, valueSerializer: json, partitions: 4}}
groupBy: {CODE}
aggregate: {{initializer: {CODE}, adder: {CODE}}}
window: {{tumbling: {{size: 1m, expires: 1h}}, grace: 10s, emit: update}}""",
    ),
    ("KasprTable", "from: {channel: joined}\ntoTable: {}"),
    ("KasprTable", f"from: {{join: j}}\nreduce: {CODE}"),
    ("KasprTable", f"from: {{table: orders}}\naggregate: {{initializer: {CODE}, adder: {CODE}, subtractor: {CODE}}}"),
    ("KasprTable", "from: {table: orders}\ncount: {}"),
    ("KasprJoin", "leftTable: a\nrightTable: b\non: key\ntype: outer"),
    ("KasprJoin", f"{STREAM}rightTable: b\non: key\npending: {{ttl: 10m}}\nrepartition: {{partitions: 6}}"),
    ("KasprJoin", f"leftStream: {{topic: a}}\nrightTable: b\ntype: left\nrightExtractor: {CODE}"),
    ("KasprJoin", f"{STREAM}rightStream: {{channel: b}}\non: key\nwindow: {{before: 5m, after: 250ms, grace: 1h}}"),
)


@pytest.mark.parametrize(("kind", "fields"), [*SPECS.items(), *MORE])
def test_every_field_is_accepted_and_kept(kind: str, fields: str) -> None:
    spec = "\n".join(f"  {line}".rstrip() for line in fields.splitlines())
    labels = "  labels: {kaspr.io/app: shop}\n"
    text = f"apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata:\n  name: x\n{labels}spec:\n{spec}\n"
    loaded = load_text(text, "m.yaml")
    assert [str(finding) for finding in loaded.findings] == []
    kept = loaded.manifests[0].manifest.model_dump(by_alias=True, mode="json", exclude_unset=True)
    assert kept == YAML(typ="safe", pure=True).load(text)
