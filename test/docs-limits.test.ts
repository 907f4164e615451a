import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { eventDefaults } from '../apiserver/src/audit/audit-event.ts'
import { fileDefaults } from '../apiserver/src/audit/audit-file.ts'
import { webhookDefaults } from '../apiserver/src/audit/audit-webhook.ts'
import { historyDefaults } from '../apiserver/src/cache/history.ts'
import { listIndexDefaults } from '../apiserver/src/cache/list-indexes.ts'
import { followerDefaults } from '../apiserver/src/cache/log-follower.ts'
import { gateDefaults } from '../apiserver/src/cache/read-gate.ts'
import { snapshotCacheDefaults } from '../apiserver/src/cache/snapshot-cache.ts'
import { stopDefaults } from '../apiserver/src/cli/stop-server.ts'
import { expressionDefaults } from '../apiserver/src/definitions/admission/cel-environment.ts'
import { policyDefaults } from '../apiserver/src/definitions/admission/compiled-policy.ts'
import { conditionDefaults } from '../apiserver/src/definitions/admission/conditions.ts'
import { admissionDefaults } from '../apiserver/src/definitions/admission/configured-admission.ts'
import { conditionLimits } from '../apiserver/src/definitions/admission/kinds/condition-problems.ts'
import { policyLimits } from '../apiserver/src/definitions/admission/kinds/policy-problems.ts'
import { findingsDefaults } from '../apiserver/src/definitions/findings.ts'
import { indexDefaults } from '../apiserver/src/definitions/kind/indexes.ts'
import { checkWorkDefaults } from '../apiserver/src/definitions/kind/validation/check-work.ts'
import { selectableFieldDefaults } from '../apiserver/src/definitions/kind/validation/selectable-fields.ts'
import { turnDefaults } from '../apiserver/src/definitions/turns.ts'
import { webhookDefaults as calledDefaults } from '../apiserver/src/definitions/webhooks/webhook-client.ts'
import { requestLimits } from '../apiserver/src/http/api-request.ts'
import { bodyDefaults } from '../apiserver/src/http/body-sender.ts'
import { connectionDefaults } from '../apiserver/src/http/connection.ts'
import { answerDefaults } from '../apiserver/src/http/resource-api.ts'
import { warningDefaults } from '../apiserver/src/http/warning-headers.ts'
import { socketDefaults } from '../apiserver/src/http/watch-connection.ts'
import { multiplexerDefaults } from '../apiserver/src/http/watch-multiplexer.ts'
import { namespaceLifecycleDefaults } from '../apiserver/src/kubernetes/namespace-lifecycle.ts'
import { roleBoundsDefaults } from '../apiserver/src/kubernetes/rbac/role-bounds.ts'
import { roleDefaults } from '../apiserver/src/kubernetes/rbac/role-kinds.ts'
import { tokenLife } from '../apiserver/src/kubernetes/service-accounts/token-life.ts'
import { outputDefaults } from '../apiserver/src/log/log-output.ts'
import { repeatDefaults } from '../apiserver/src/log/repeat-limit.ts'
import { celLimits } from '../apiserver/src/model/cel/budget.ts'
import { decodeDefaults } from '../apiserver/src/model/decode.ts'
import { objectLimits } from '../apiserver/src/model/object-limits.ts'
import { patternDefaults } from '../apiserver/src/model/pattern.ts'
import { admitDefaults } from '../apiserver/src/plugins/admit-reads.ts'
import { loadDefaults } from '../apiserver/src/plugins/load-plugin.ts'
import { pluginReportDefaults } from '../apiserver/src/plugins/plugin-report.ts'
import { shippedDefaults } from '../apiserver/src/plugins/shipped-document.ts'
import { deleteAllDefaults } from '../apiserver/src/registry/delete-all.ts'
import { jsonPatchDefaults } from '../apiserver/src/registry/json-patch.ts'
import { registryDefaults } from '../apiserver/src/registry/registry.ts'
import { migrationDefaults } from '../apiserver/src/registry/stored-version-migration.ts'
import { uniqueLimits } from '../apiserver/src/registry/unique-index.ts'
import { attemptDefaults } from '../apiserver/src/registry/write-attempts.ts'
import { fairSchedulerDefaults } from '../apiserver/src/scheduling/fair-scheduler.ts'
import { fairnessDefaults } from '../apiserver/src/scheduling/request-queues.ts'
import { workTurnsDefaults } from '../apiserver/src/scheduling/work-turns.ts'
import { clientCertificateDefaults } from '../apiserver/src/security/client-certificates.ts'
import { impersonationLimits } from '../apiserver/src/security/impersonation.ts'
import { fetchJsonDefaults } from '../apiserver/src/security/oidc/fetch-json.ts'
import { tokenFileDefaults } from '../apiserver/src/security/token-file.ts'
import { verifiedTokenDefaults } from '../apiserver/src/security/verified-tokens.ts'
import { compactorDefaults } from '../apiserver/src/storage/compactor.ts'
import { storageLimits } from '../apiserver/src/storage/contract.ts'
import { embeddedDefaults } from '../apiserver/src/storage/embedded/defaults.ts'
import { etcdDefaults } from '../apiserver/src/storage/etcd/defaults.ts'
import { watchDefaults } from '../apiserver/src/watch/subscription.ts'
import { subscriptionLimits, watchLimitDefaults } from '../apiserver/src/watch/watch-limits.ts'
import { nameLimits } from '../controller-runtime/src/api/names.ts'
import { selectorLimits } from '../controller-runtime/src/api/selector.ts'
import { httpTransportDefaults } from '../controller-runtime/src/client/http-transport-options.ts'
import { controllerDefaults } from '../controller-runtime/src/controller/builder.ts'
import { eventKeeperDefaults } from '../controller-runtime/src/events/event-keeper.ts'
import { eventRecorderDefaults } from '../controller-runtime/src/events/event-recorder.ts'
import { leaderElectionDefaults } from '../controller-runtime/src/manager/leader-election-options.ts'
import { workQueueDefaults } from '../controller-runtime/src/workqueue/work-queue.ts'

/** The figures of docs/reference/limits.md and docs/maintainers/bounds.md are those of the code. */

const count = (value: number) => value.toLocaleString('en-US')
const bytes = (value: number) =>
  value % (1024 * 1024 * 1024) === 0
    ? `${value / (1024 * 1024 * 1024)} GiB`
    : value % (1024 * 1024) === 0
      ? `${value / (1024 * 1024)} MiB`
      : `${value / 1024} KiB`
const time = (ms: number) => {
  if (ms % 60_000 === 0 && ms >= 120_000 && ms !== 300_000) return `${ms / 60_000} min`
  return ms >= 1_000 ? `${count(ms / 1_000)} s` : `${ms} ms`
}

/** The limit of each row by what it limits. */
const limits: Readonly<Record<string, string>> = {
  '[Parts](#parts) of an object': count(objectLimits.parts),
  'List items and fields of an object': count(objectLimits.values),
  'Top-level fields of an object, such as `spec`': `${count(objectLimits.topLevelFields)} (413)`,
  'Parts of its managed fields': count(objectLimits.managedParts),
  'Annotations, keys and values together': bytes(nameLimits.annotationBytes),
  'Values in all unique indexes together': count(uniqueLimits.valuesPerObject),
  'Characters of a name, label prefix, finalizer': count(nameLimits.name),
  "Characters of a label's name or value": count(nameLimits.label),
  'Stored size of an object, with the unique values that a write takes': `${count(storageLimits.valueBytes)} bytes (413)`,
  'Levels of nesting in a body': `${decodeDefaults.maxDepth} (400)`,
  'Combinations of verbs, groups, resources and names in a role': count(roleDefaults.combinations),
  Body: bytes(requestLimits.bodyBytes),
  'Request line and headers together': bytes(requestLimits.headerBytes),
  'Value of a header': bytes(requestLimits.headerValueBytes),
  'Groups and extra values of an impersonated user': count(impersonationLimits.values),
  'YAML body': bytes(decodeDefaults.maxYamlBytes),
  '[Parts](#parts) of a JSON or protobuf body': count(decodeDefaults.maxParts),
  'Numbers of more than 15 characters in a JSON body': count(decodeDefaults.maxLongNumbers),
  'Terms of the selectors of a request': count(selectorLimits.terms),
  'Selectors of a request': bytes(selectorLimits.bytes),
  'Operations of a JSON patch': count(jsonPatchDefaults.maxOperations),
  'Bytes that a JSON patch copies': bytes(jsonPatchDefaults.maxCopiedBytes),
  '[Parts](#parts) that a JSON patch copies': count(jsonPatchDefaults.maxCopiedParts),
  'List items that a JSON patch shifts': count(jsonPatchDefaults.maxShiftedItems),
  'Levels of all pointers of a JSON patch': count(jsonPatchDefaults.maxLevels),
  'Characters of all pointers of a JSON patch': count(jsonPatchDefaults.maxPointerCharacters),
  'Time of a write that other writes always overtake': time(attemptDefaults.writeMs),
  'Writes of a server that wait for their turn at an object': count(attemptDefaults.waiting),
  'Names tried for one `generateName`': count(registryDefaults.generatedNames),
  'Characters of all warnings of a response': count(warningDefaults.maxTotal),
  'Time of all webhooks of a write': time(admissionDefaults.writeMs),
  "Bytes of a webhook's response": bytes(calledDefaults.responseBytes),
  'Connections to one webhook': count(calledDefaults.connections),
  'Steps of a policy with one parameter, for one write': count(policyDefaults.steps),
  'Steps of match conditions': count(conditionDefaults.steps),
  'Match conditions of a policy or a webhook': count(conditionLimits.conditions),
  'Audit annotations of a policy': count(policyLimits.annotations),
  'Characters of an expression': count(expressionDefaults.length),
  'Characters of an expression for an annotation': count(policyLimits.annotationLength),
  'Characters of a message that an expression makes': count(policyDefaults.messageLength),
  "Characters of an annotation's value": count(policyDefaults.annotationLength),
  'Characters of the annotations of an audit event': count(eventDefaults.annotationsLength),
  'Objects in the response to a DELETE of a collection': count(answerDefaults.deleted),
  'Requests that wait, per class': count(fairnessDefaults.waiting),
  'Time that a request waits': time(fairnessDefaults.waitChecks * fairnessDefaults.checkMs),
  'Bytes of bodies that have arrived, until the response is ready': `${bytes(fairnessDefaults.bodies.bytes)}, ${bytes(fairnessDefaults.bodies.bytesPerIdentity)} per identity`,
  'The same, for routes of plugins': `${bytes(fairnessDefaults.routeBodies.bytes)}, ${bytes(fairnessDefaults.routeBodies.bytesPerIdentity)} per identity`,
  'Time until the cache has caught up with the store': time(gateDefaults.waitMs),
  'Long lists in progress': `${fairSchedulerDefaults.atOnce}, ${fairSchedulerDefaults.atOncePerCaller} per user`,
  'Objects that lists in progress hold': `${count(fairSchedulerDefaults.held)}, ${count(fairSchedulerDefaults.heldPerCaller)} per user`,
  'Long lists that wait for that': `${count(fairSchedulerDefaults.waiting)}, ${fairSchedulerDefaults.waitingPerCaller} per user`,
  'Objects of long lists, until the last byte is sent': `${count(answerDefaults.objects)}, ${count(answerDefaults.objectsPerCaller)} per user`,
  'Long lists that wait for others to be sent': `${count(answerDefaults.waiting)}, ${answerDefaults.waitingPerCaller} per user`,
  'Objects that a DELETE of a collection deletes at a time': count(deleteAllDefaults.concurrency),
  'Headers of a request': time(connectionDefaults.headersMs),
  'Whole request': `${connectionDefaults.requestMs / 1000} s`,
  'Silence while a body arrives': time(connectionDefaults.bodyStallMs),
  'Silence while a client takes a response': time(connectionDefaults.responseStallMs),
  'TLS handshake': time(connectionDefaults.handshakeMs),
  'Idle connection': time(connectionDefaults.keepAliveMs),
  'Requests behind another on a connection': `${connectionDefaults.pipelined}, ${bytes(connectionDefaults.pipelinedBytes)}`,
  'Response compressed from a size of': bytes(bodyDefaults.gzipBytes),
  'Drain after SIGTERM': time(stopDefaults.drainMs),
  'Of the drain, for reconciles and routes of plugins': time(stopDefaults.reconcilesMs),
  'Connections that watch': count(watchLimitDefaults.connections),
  'Connections that watch, per user': count(watchLimitDefaults.connectionsPerUser),
  Subscriptions: `${count(subscriptionLimits.subscriptions)} per socket, ${count(subscriptionLimits.subscriptionsPerUser)} per user, ${count(subscriptionLimits.subscriptionsInAll)} in total`,
  [`Selectors of open watches: their text and ${subscriptionLimits.termBytes} bytes for each term and value`]: `${bytes(subscriptionLimits.selectorBytes)} per socket, ${bytes(subscriptionLimits.selectorBytesPerUser)} per user, ${bytes(subscriptionLimits.selectorBytesInAll)} in total`,
  "Characters of a subscription's id": count(multiplexerDefaults.idLength),
  "Characters of a subscription's path": bytes(multiplexerDefaults.pathLength),
  'Message from a client': `${bytes(socketDefaults.maxMessageBytes)} in ${socketDefaults.maxFragments} frames, ${count(socketDefaults.maxChunks)} chunks for a frame`,
  'Bytes buffered for a client, initial events': bytes(watchDefaults.paceBytes),
  'Time for a client to read 128 KiB': time(watchDefaults.stallMs),
  'Time between bookmarks': time(watchDefaults.bookmarkMs),
  'Time between pings': time(socketDefaults.pingMs),
  'Changes kept per kind': `${historyDefaults.minEvents} to ${count(historyDefaults.maxEvents)}`,
  'Age of a change': `${historyDefaults.maxAgeMs / 60_000} min`,
  'Bytes of changes kept per kind': bytes(historyDefaults.maxBytes),
  'Keys and values of the current data, embedded': bytes(embeddedDefaults.dataBytes),
  'Revisions of history, embedded': count(embeddedDefaults.historyRevisions),
  'Bytes of history, embedded': bytes(embeddedDefaults.historyBytes),
  'Time of a commit, embedded': time(embeddedDefaults.commitTimeoutMs),
  'Time of a call of etcd with all its steps': time(etcdDefaults.deadlineMs),
  'Time between compactions of etcd': `${compactorDefaults.intervalMs / 60_000} min`,
  'Time that the token file may be unusable': time(tokenFileDefaults.refuseAfterMs),
  "Life of a service account's token": `${tokenLife.shortestSeconds / 60} min to ${tokenLife.longestSeconds / 3600} h`,
  "Certificates of a client's chain that are used": count(clientCertificateDefaults.chainLength),
  'Response of an OpenID Connect issuer': `${bytes(fetchJsonDefaults.maxBytes)}, ${time(fetchJsonDefaults.timeoutMs)}`,
  'Audit events that wait for the file': bytes(fileDefaults.bufferLength),
  'Audit events that wait for the webhook': `${count(webhookDefaults.bufferEvents)}, ${bytes(webhookDefaults.bufferBytes)}`,
  'Log lines that wait for the reader of standard error': bytes(outputDefaults.bufferBytes),
  'Lines with the same message from one plugin, controller, runnable or watch, warnings and errors': `${repeatDefaults.lines} in ${time(repeatDefaults.windowMs)}`,
  'Messages told apart in 10 s': count(repeatDefaults.messages),
  "Time to import a plugin's module": time(loadDefaults.importTimeoutMs),
  'Size of a shipped YAML document': bytes(shippedDefaults.documentBytes),
  'Problems listed on a `Plugin` status': `${pluginReportDefaults.shownProblems} of each kind`,
  'Unknown fields named for a shipped document': count(shippedDefaults.shownFields),
  'Instructions of a compiled `pattern`': count(patternDefaults.maxInstructions),
  'Steps of all rules on one object': count(celLimits.steps),
  "Characters of a rule's expression": count(celLimits.expressionLength),
  'Selectable fields of a version': count(selectableFieldDefaults.maxFields),
  'Indexes in the annotation `setpoint.dev/indexes`': count(indexDefaults.maxIndexes),
  'Steps of checking one default by its schema': count(checkWorkDefaults.stepsAtOnce),
  'Steps of checking all defaults of a schema': count(checkWorkDefaults.steps),
  'Rules that one default is checked by': count(checkWorkDefaults.rulesAtOnce),
  'Rules that all defaults of a schema are checked by': count(checkWorkDefaults.rules),
  'Violations of a definition': count(findingsDefaults.maxViolations),
  'Objects that one call of an `admit` hook reads': `${count(admitDefaults.objects)}, ${bytes(admitDefaults.bytes)}`,
  'Objects migrated to another stored version': `${migrationDefaults.objectsPerSecond} a second, ${migrationDefaults.concurrency} at once`,
  'Objects reconciled at once, per controller': count(controllerDefaults.concurrency),
  'Time of a reconcile': time(controllerDefaults.timeoutMs),
  'Retry of a failing object': `${workQueueDefaults.backoffBaseMs} ms to ${time(workQueueDefaults.backoffMaxMs)}`,
  'Sockets to the server': count(httpTransportDefaults.maxSockets),
  'Silence of a request': time(httpTransportDefaults.requestTimeoutMs),
  'Silence of a watch': time(httpTransportDefaults.watchIdleTimeoutMs),
  Response: bytes(httpTransportDefaults.maxResponseBytes),
  'Event of a watch': bytes(httpTransportDefaults.maxEventBytes),
  'Frames of a watch that wait to be read': count(httpTransportDefaults.frameQueueLength),
  'Lease: duration, deadline, retry': [
    leaderElectionDefaults.leaseDurationMs,
    leaderElectionDefaults.renewDeadlineMs,
    leaderElectionDefaults.retryPeriodMs,
  ]
    .map(time)
    .join(', '),
  'Events waiting or recently written': count(eventRecorderDefaults.limit),
  'Events kept per object, in all': `${eventKeeperDefaults.perObject}, ${count(eventKeeperDefaults.inAll)}`,
  'Combinations of verbs, groups, resources and names in all its Roles': count(
    roleBoundsDefaults.combinations,
  ),
  Roles: count(roleBoundsDefaults.roles),
  'Subjects of all its RoleBindings, at least one for each': count(roleBoundsDefaults.subjects),
}

const bounds: Readonly<Record<string, string>> = {
  'Characters of one `Warning`': count(warningDefaults.maxLength),
  'Body discarded after an early refusal': `${bytes(requestLimits.discardedBytes)}, ${time(requestLimits.discardMs)}`,
  'Time for requests in one turn': time(fairnessDefaults.turnMs),
  'Time for checking a definition in one turn': time(turnDefaults.turnMs),
  'Time between two turns that serve waiting requests': `${fairnessDefaults.turns} turns or ${time(fairnessDefaults.pauseMs)}`,
  'Waiting requests served in such a turn': count(fairnessDefaults.requestsPerTurn),
  'Body that is parsed in the turn of its arrival': `up to ${bytes(fairnessDefaults.largeBody)}`,
  'Index entries that list requests may examine in one turn': count(workTurnsDefaults.entries),
  'Messages of an identity that wait': count(socketDefaults.waitingPerCaller),
  'List indexes being built, per kind': `${listIndexDefaults.building}, ${listIndexDefaults.buildingPerCaller} per user`,
  'List indexes kept, per kind': count(listIndexDefaults.indexes),
  'Former versions of objects that only snapshots keep, per kind': bytes(snapshotCacheDefaults.bytes),
  'TCP keep-alive probe': time(connectionDefaults.probeAfterMs),
  'Changes that wait while a cache is built': count(followerDefaults.maxPending),
  'Lag behind the store': time(followerDefaults.lagMs),
  'Silence of the log while the store moves on': time(followerDefaults.stallMs),
  'Transactions that wait for a commit': `${count(embeddedDefaults.queuedTransactions)}, ${bytes(embeddedDefaults.queuedBytes)}`,
  'One commit': `${embeddedDefaults.batchTransactions}, ${bytes(embeddedDefaults.batchBytes)}`,
  'Bytes of a key': count(embeddedDefaults.keyBytes),
  'Wait before a read is also sent to another member': time(etcdDefaults.hedgeMs),
  'Wait before the outcome of a write is looked up': time(etcdDefaults.patienceMs),
  'Times that a write is sent again': count(etcdDefaults.resends),
  'Pause between attempts to connect': `${etcdDefaults.backoffMinMs} ms to ${time(etcdDefaults.backoffMaxMs)}`,
  'Page of a list': `${etcdDefaults.pageItems} keys, ${bytes(etcdDefaults.pageBytes)}`,
  'Compares and operations of a transaction': `${storageLimits.transactionItems} each`,
  'Verified JSON Web Tokens kept': count(verifiedTokenDefaults.tokens),
  'Keys of a deleting namespace read at once': count(namespaceLifecycleDefaults.pageSize),
}

/** Returns the second cell of each row by its first. */
async function cellsOf(page: string): Promise<Map<string, string>> {
  const text = await readFile(new URL(`../docs/${page}.md`, import.meta.url), 'utf8')
  return new Map(
    [...text.matchAll(/^\| ([^|]+?) +\| ([^|]+?) *\|/gm)].map(([, what = '', limit = '']) => [what, limit]),
  )
}

test.each([
  ['reference/limits', limits],
  ['maintainers/bounds', bounds],
])('the figures of %s are those of the code', async (page, expected) => {
  const cells = await cellsOf(page)
  const shown = Object.keys(expected).map(what => [what, cells.get(what)])
  expect(Object.fromEntries(shown)).toEqual(expected)
})
