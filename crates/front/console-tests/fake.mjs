// A daemon that is none: rows of every kind with any text in them, for what a real one could hardly be brought to say.

import { createHash, generateKeyPairSync, sign } from 'node:crypto';

const ago = (ms) => new Date(Date.now() - ms).toISOString();
const MINUTE = 60_000;

export function fakeDaemon({ questions = 3, conversations = 40, evil = null, diffLines = 60 } = {}) {
  const text = (plain) => evil ?? plain;
  const streams = new Set();
  const rows = {
    requests: Array.from({ length: questions }, (_, at) => question(at, text, diffLines)),
    conversations: Array.from({ length: conversations }, (_, at) => conversation(at, text)),
    dead: Array.from({ length: 4 }, (_, at) => dead(at, text)),
    tokens: [token('laptop', ['read', 'send', 'control', 'approve', 'admin']), token('ci', ['read', 'send']), token('old', ['read'], ago(8 * 3600_000)),
      { ...token('s1', ['read', 'approve']), kind: 'session', label: 'phone', expires_at: ago(-25 * 86400_000) }],
    audit: record(text),
    push: [],
  };
  const state = { session: { name: 'laptop', scopes: ['read', 'send', 'control', 'approve', 'admin'], expires_at: ago(-20 * 86400_000) }, signedIn: true, calls: [], down: false };
  let eventId = Date.now();

  const tell = (name, data) => {
    eventId += 1;
    for (const stream of streams) stream.write(`event: ${name}\nid: ${eventId}\ndata: ${JSON.stringify(data)}\n\n`);
  };
  const routes = {
    'GET session': () => state.session,
    'POST session': ({ body }) => (body.code === 'good' ? ((state.signedIn = true), { ...state.session, half: 'half' }) : refuse(401, 'this code is unknown, was used or is too old: run `codex-bridge console` again')),
    'DELETE session': () => { state.signedIn = false; return {}; },
    'GET status': () => status(rows, text),
    'GET requests': ({ query }) => page(rows.requests.filter((one) => query.get('state') === 'all' || one.state === 'open'), 'requests', query, (one) => one.request_id),
    'GET requests/:id': ({ id }) => rows.requests.find((one) => one.request_id === id) ?? refuse(404, 'there is no question'),
    'POST requests/:id/decision': ({ id, body }) => {
      const found = rows.requests.find((one) => one.request_id === id);
      if (!found) return refuse(404, 'there is no question');
      if (found.state !== 'open') return refuse(409, `${found.by} already decided`);
      if (body.digest && body.digest !== found.digest) return refuse(409, 'what was shown is not what is asked now');
      Object.assign(found, { state: body.decision, decision: body.decision, decided_with: body.digest, by: 'local owner', via: 'console', decided_at: ago(0) });
      tell('request', { ...found, shown: undefined, payload: undefined });
      return { outcome: 'applied', ...found };
    },
    'GET conversations': ({ query }) => page(rows.conversations, 'conversations', query, (one) => one.conversation_id),
    'GET conversations/:id': ({ id }) => { const one = rows.conversations.find((other) => other.conversation_id === id); return one ? { ...one, messages: messages(one, text), next: null } : refuse(404, 'there is no such conversation'); },
    'GET messages/:id': ({ id }) => story(id, text, id.includes('dead') ? 'dead' : 'done'),
    'POST messages/:id/redrive': ({ id }) => { rows.dead = rows.dead.filter((one) => one.message_id !== id); return { message_id: id, outcome: 'queued', detail: 'It is queued again.' }; },
    'POST messages/:id/drop': ({ id }) => { rows.dead = rows.dead.filter((one) => one.message_id !== id); return { message_id: id, outcome: 'dropped', detail: 'It is given up.' }; },
    'POST messages/:id/cancel': ({ id }) => ({ message_id: id, outcome: 'stopping', detail: 'It is being stopped.' }),
    'POST messages/:id/steer': () => ({ task: task(0, text), steer: 'steered' }),
    'POST messages': () => ({ message_id: 'm-0-1', duplicate: false }),
    'GET tasks': ({ query }) => page(Array.from({ length: 5 }, (_, at) => task(at, text)), 'tasks', query, (one) => one.task_id),
    'POST tasks': () => ({ task: task(1, text), duplicate: false }),
    'GET tasks/:id': ({ id }) => ({ task: task(Number(id.at(-1)) || 0, text) }),
    'GET dead': ({ query }) => page(rows.dead, 'dead', query, (one) => one.message_id),
    'GET tokens': () => ({ tokens: rows.tokens }),
    'POST tokens': ({ body }) => { rows.tokens.push(token(body.name, body.scopes)); return { name: body.name, scopes: body.scopes, token: 'cb_Zm9vYmFyYmF6cXV4' }; },
    'DELETE tokens/:id': ({ id }) => { Object.assign(rows.tokens.find((one) => one.name === id), { revoked_at: ago(0) }); return { name: id, cancelled: 0, joined: [], running: [] }; },
    'GET push': () => ({ key: 'BHd2q8Y1lM4zT0nJ', subscriptions: rows.push }),
    'POST push': ({ body }) => { rows.push.push({ id: 'p1', session: 'laptop', about: body.about, detail: body.detail, created_at: ago(0) }); return { id: 'p1' }; },
    'DELETE push/:id': ({ id }) => { rows.push = rows.push.filter((one) => one.id !== id); return {}; },
    'GET audit': () => rows.audit,
    'GET figures': ({ query }) => figures(Number(query.get('hours')), text),
    'GET search': () => ({ looked_at: 812, detail: 'searched all 812 messages', next: null, found: [{ message_id: 'm-3-1', conversation_id: 'c-3', channel: 'local', conversation: text('release notes'), sender: text('owner'), received_at: ago(9 * MINUTE), phase: 'done', place: 'answer', excerpt: text('… the server needs 8 s, and the test waits 5 s …') }] }),
    'GET channels': () => ({ channels: [{ channel: 'local', state: null, detail: null, since: null, messages: 71, newest_at: ago(MINUTE) }, { ...status(rows, text).health.channels[0], messages: 12, newest_at: ago(3 * MINUTE) }] }),
    'GET senders': () => ({ since: ago(86400_000), left: 0, senders: [{ channel: 'local', sender: text('owner'), tier: 'owner', messages: 71, newest_at: ago(MINUTE), budget: null, used: { turns: 71, tokens: 903_000, bytes: null }, waits_until: null }, { channel: 'a2a', sender: text('mallory'), tier: 'peer', messages: 12, newest_at: ago(3 * MINUTE), budget: { turns: 20, tokens: 50_000, bytes: 1e8 }, used: { turns: 12, tokens: 33_000, bytes: 4e6 }, waits_until: ago(-3600_000) }] }),
    'POST policy/explain': ({ body }) => ({ decision: 'deny', who: null, rule: text('no pushing'), why: text('the rule "no pushing" denies `git push` anywhere in the command line'), tier: body.tier, kind: body.kind, sandbox: 'read-only', approval_policy: 'on-request', asked: 'only what it wants to run outside of the sandbox', accept_means: text('it runs, once, possibly outside of its sandbox'), deadline_secs: 3600, rules: [{ name: text('status is fine'), then: 'allow', matches: false, why_not: text('another command') }, { name: text('no pushing'), then: 'deny', matches: true, why_not: null }] }),
    'GET policy/replay': () => ({ since: ago(7 * 86400_000), next: null, requests: rows.requests.map((one, at) => ({ ...one, then: 'ask', decision: 'accept', now: at % 2 ? 'deny' : 'ask', rule: at % 2 ? text('no pushing') : null, why: text('a rule'), differs: at % 2 === 1 })) }),
    'POST dead/retry': ({ body }) => bulk(rows, body),
    'POST dead/discard': ({ body }) => bulk(rows, body),
  };

  async function handle(incoming, response, path) {
    if (state.down) return response.destroy();
    const url = new URL(path, 'http://x');
    const name = url.pathname.replace('/v1/', '');
    state.calls.push({ method: incoming.method, name, headers: incoming.headers });
    if (!state.signedIn && !(incoming.method === 'POST' && name === 'session')) return answer(response, refuse(401, 'no session'));
    if (name === 'events' || name.endsWith('/events')) return stream(response, name);
    const found = Object.keys(routes).map((key) => [key, match(key, incoming.method, name)]).find(([, id]) => id !== null);
    const body = ['POST', 'PUT'].includes(incoming.method) ? await read(incoming) : {};
    answer(response, found ? routes[found[0]]({ id: found[1], query: url.searchParams, body }) : refuse(404, 'there is no such route'));
  }

  function stream(response, name) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    if (name === 'events') {
      streams.add(response);
      response.on('close', () => streams.delete(response));
      response.write(`event: ready\nid: ${eventId}\ndata: {"at":"${ago(0)}"}\n\n`);
      return;
    }
    response.write(`event: item\nid: 1\ndata: ${JSON.stringify({ ordinal: 1, attempt: 1, kind: 'item/started', text: text('runs `cargo test -p shop login`'), at: ago(4000) })}\n\n`);
    response.write(`event: output\ndata: ${JSON.stringify({ text: text('running 14 tests\n\u001b[32mtest login::ok ... ok\u001b[0m\ntest login::slow ... FAILED') })}\n\n`);
    response.write(`event: text\ndata: ${JSON.stringify({ text: text('The test waits **5 s**; the server needs 8 s. I’ll set `TIMEOUT=20` in') })}\n\n`);
  }
  const drop = () => streams.forEach((one) => one.destroy());
  return { handle, rows, state, tell, drop, streams };
}

function bulk(rows, { ids, dry_run }) {
  if (!dry_run) rows.dead = rows.dead.filter((one) => !ids.includes(one.message_id));
  return { done: ids.map((id) => ({ message_id: id, outcome: 'queued', detail: 'It is queued again.' })), refused: [], left: 0, dry_run };
}

const refuse = (status, detail) => ({ refused: status, detail });

function answer(response, body) {
  const refused = typeof body.refused === 'number';
  const status = refused ? body.refused : 200;
  response.writeHead(status, { 'content-type': refused ? 'application/problem+json' : 'application/json' });
  response.end(JSON.stringify(refused ? { title: 'refused', status, detail: body.detail } : body));
}

function match(key, method, name) {
  const [verb, pattern] = key.split(' ');
  if (verb !== method) return null;
  const found = new RegExp(`^${pattern.replace(':id', '([^/]+)')}$`).exec(name);
  return found ? decodeURIComponent(found[1] ?? '') : null;
}

async function read(incoming) {
  let body = '';
  for await (const chunk of incoming) body += chunk;
  return body ? JSON.parse(body) : {};
}

function page(all, field, query, id) {
  const limit = Number(query.get('limit') ?? 50);
  const from = query.get('before') ? all.findIndex((one) => id(one) === query.get('before')) + 1 : 0;
  const some = all.slice(from, from + limit);
  return { [field]: some, next: from + limit < all.length ? id(some.at(-1)) : null };
}

function question(at, text, diffLines) {
  const kind = ['command', 'file_change', 'user_input'][at % 3];
  const diff = Array.from({ length: diffLines }, (_, line) => (line % 40 === 0 ? `@@ -${line},6 +${line},7 @@` : `${' +-'[line % 3]}    let timeout_${line} = Duration::from_secs(${line});`)).join('\n');
  const shown = { command: "command: /bin/bash -lc 'git push origin main'\ncwd: /home/ada/project\nsandbox: workspace-write, and if accepted it may run outside of it\nreason: publish the fix",
    file_change: `files: tests/login.rs\n--- a/tests/login.rs\n+++ b/tests/login.rs\n${diff}`, user_input: 'Which colour should the button have?' }[kind];
  const headline = { command: 'run `git push origin main` in /home/ada/project (publish the fix)', file_change: 'change tests/login.rs (1 file)', user_input: 'Which colour should the button have?' }[kind];
  return {
    request_id: `r${String(at).padStart(4, '0')}`, code: `k${(at * 7919 + 46655).toString(36)}`, message_id: `m-${at}-1`, channel: at % 2 ? 'a2a' : 'local', conversation: text(at % 2 ? 'ticket-42' : 'main'),
    requester: text(at % 2 ? 'peer mallory (A2A, tier peer)' : 'you'), sender: at % 2 ? 'mallory' : 'owner', tier: at % 2 ? 'peer' : 'owner', method: 'item/commandExecution/requestApproval', kind,
    headline: text(headline), shown: text(shown), payload: kind === 'user_input' ? { questions: [{ id: 'colour', question: text('Which colour should the button have?'), options: [{ label: text('teal'), description: text('as the rest of the page') }, { label: 'amber', description: '' }], isOther: true }] } : {},
    digest: createHash('sha256').update(`${kind}\0${text(shown)}`).digest('hex'), wants: kind === 'user_input' ? 'form' : 'approval', deciders: 'owner', state: 'open', attempt: 1, incarnation: 'abc', created_at: ago(5 * MINUTE), deadline: ago(-(at * 3 + 1) * MINUTE + 15_000),
  };
}

const PHASES = ['working', 'waiting for you', 'done', 'done', 'failed', 'queued', 'done', 'stopped'];

const conversation = (at, text) => ({
  conversation_id: `c-${at}`, channel: at % 5 === 4 ? 'task' : 'local', key: text(['main', 'ideas', 'ticket-42', 'release notes', 'codex-3f2a91c04d7e'][at % 5] + (at > 4 ? ` ${at}` : '')), thread_id: '0199-thread', workdir: text(`/home/ada/.local/state/codex-bridge/work/c-${at}`),
  created_at: ago(86400_000), active_at: ago(at * 17 * MINUTE), phase: PHASES[at % PHASES.length], message_id: `m-${at}-1`, line: text(['Why is CI red? See ci.log', 'Fix it and push', 'Write a limerick about fsync into poem.txt', 'What changed since the last release?'][at % 4]), open_requests: at % 8 === 1 ? 1 : 0,
});

function message(id, text, more) {
  return {
    message_id: id, conversation: 'main', channel: 'local', sender: text('owner'), text: text('Why is CI red? See ci.log'), files: [{ name: text('ci.log'), media_type: 'text/plain', bytes: 18_433, path: text('/home/ada/files/ci.log') }], state: 'done', phase: 'done', attempt: 1, round: 0,
    suspect: false, followers: [], requests: [], received_at: ago(9 * MINUTE), updated_at: ago(8 * MINUTE), worth_waiting: false, why: { now: text('It was answered.'), next: text('Nothing.') },
    answer: { text: text('`test_login` waits **5 s**; the server needs 8 s.\n\n1. Set `TIMEOUT=20` in [ci.env](https://example.org/ci.env)\n2. Run it again:\n\n```sh\ncargo test -p shop login\n```\n\n> The log says `timeout after 5 s`.'), files: [], source: 'live', created_at: ago(8 * MINUTE) }, ...more,
  };
}

function messages(one, text) {
  const running = one.phase === 'working' ? [message(`${one.message_id}-run`, text, { answer: null, state: 'running', phase: 'working', files: [], text: text('Fix it and push'), received_at: ago(MINUTE), updated_at: ago(MINUTE), why: { now: text('Codex works on it since 40 s.'), next: text('Its answer is delivered when the turn ends.') } })] : [];
  const asks = one.phase === 'waiting for you' ? [message(`${one.message_id}-ask`, text, { answer: null, state: 'running', phase: 'waiting for you', requests: [question(0, text, 10)], why: { now: text('Codex asks something.'), next: text('Declined in an hour if nobody answers.') } })] : [];
  return [...running, ...asks, message(one.message_id, text, {})].map((found) => ({ ...found, conversation: one.key, channel: one.channel }));
}

function story(id, text, state) {
  const failed = state === 'dead';
  const attempt = (number, more) => ({ attempt: number, client_id: `${id}.${number}`, thread_id: text('0199-thread'), turn_id: '7', incarnation: 'a1b2c3d4e5f6', state: 'ended', sandbox: 'workspace-write', touched: false, started_at: ago((9 - number) * MINUTE), ended_at: ago((9 - number) * MINUTE - 30_000), input_tokens: 8120, output_tokens: 1195, failures: [], ...more });
  const event = (ordinal, number, kind, words) => ({ ordinal, attempt: number, kind, text: text(words), at: ago((9 - number) * MINUTE - ordinal * 900) });
  return {
    ...message(id, text, failed ? { state: 'dead', phase: 'failed', answer: null, attempt: 3, failure: { class: 'permanent', reason: text('the model refused: context too long') }, why: { now: text('It failed: the model refused.'), next: text('Nothing, until somebody retries or discards it.') } } : { attempt: 2 }),
    attempts: [attempt(1, { state: 'lost', touched: true, failures: [text('Codex died (signal 9)')] }), attempt(2, {})],
    events: [event(1, 1, 'item/started', 'runs `tail -1 ci.log`'), event(2, 1, 'codex/stderr', 'connection reset'), event(3, 2, 'item/completed', 'ran `tail -1 ci.log`: timeout after 5 s'), event(4, 2, 'request', 'asks: run `git push`')],
    requests: [{ ...question(0, text, 10), attempt: 2, state: 'accept', decision: 'accept', by: text('local owner'), via: 'terminal', decided_at: ago(6 * MINUTE) }],
    replies: failed ? [] : [{ ordinal: 0, kind: 'answer', state: 'sent', tries: 2, not_before: null, receipt: text('receipt-77'), reason: null, notice: null }],
    acts: [{ at: ago(8.5 * MINUTE), by: text('local owner'), what: 'redrive', detail: text('sent again') }],
  };
}

const dead = (at, text) => ({
  message_id: `m-dead-${at}`, conversation: text(['nightly', 'main'][at % 2]), channel: 'local', sender: text(['token ci', 'owner'][at % 2]), line: text(['Update all dependencies and open a pull request', 'Deploy to staging'][at % 2]), reason: text(at % 2 ? 'It was cut after a change: the daemon can’t know what became of it.' : 'permanent: the model refused, context too long'),
  state: at % 2 ? 'parked' : 'dead', attempts: 3, answered: false, age_ms: 5e6, received_at: ago(90 * MINUTE), since: ago(60 * MINUTE * (at + 1)), until: at % 2 ? null : ago(-20 * 86400_000),
});

const task = (at, text) => ({
  task_id: `codex-3f2a91c04d7${at}`, status: ['working', 'completed', 'waiting_for_approval', 'failed', 'queued'][at % 5], phase: ['working', 'done', 'waiting for you', 'failed', 'queued'][at % 5], prompt_summary: text('Make the slow test fast'), message_ids: [`m-${at}-1`], active_connection: true,
  cwd: text('/home/ada/project'), sandbox: 'workspace-write', approval_policy: 'on-request', model: text('gpt-5.2-codex'), starter: text('local owner'), created_at: ago(50 * MINUTE), updated_at: ago(at * 9 * MINUTE), last_progress_summary: text('ran `cargo test`: 14 passed'), pending_requests: at % 5 === 2 ? [{}] : [], error_summary: at % 5 === 3 ? text('the model refused') : null,
});

const token = (name, scopes, revoked_at = null) => ({ name, scopes, created_at: ago(12 * 86400_000), last_used_at: ago(3 * MINUTE), revoked_at });

function status(rows, text) {
  const open = rows.requests.filter((one) => one.state === 'open').length;
  return {
    health: { ready: true, detail: text('ready'), pid: 4242, version: '0.1.0', codex: text('codex 0.166.0, app-server runs since 3 h; 5 h limit 34 % used, weekly 12 %'), channels: [{ channel: 'molecule:3132147e', state: 'retrying', detail: text('the platform did not answer: tried again in 30 s'), since: ago(4 * MINUTE) }], reload: null,
      ledger: { health: 'sound', damage: null, free_bytes: 81e9, low_bytes: 5e8, log_bytes: 4.1e6, last_commit_ms: 3, closed: null, warnings: [] } },
    counts: {}, summary: { waiting: 2, working: 3, unclear: 0, waiting_for_you: open, sending: 0, answered: 1204, answered_24h: 87, dead: rows.dead.length, cancelled: 12 }, oldest_unanswered_at: ago(11 * MINUTE), oldest_unanswered_ms: 11 * MINUTE, suspects: 0, acks_owed: 0, replies_retried: 0, requests_waiting: open, ledger_bytes: 42e6,
    nodes: [{ node_id: 'node-a', state: 'active', answers: true, turns: 3, capacity: 8, conversations: 21, lease_ms: 8000, version: '0.1.0', codex_version: '0.166.0', started_at: ago(1e7), reads: [] }],
  };
}

function figures(length, text) {
  const hours = Array.from({ length }, (_, at) => ({ at: ago((length - at) * 3600_000), answered: Math.round(9 + 7 * Math.sin(at / 3)), failed: at % 7 === 0 ? 1 : 0, stopped: 0, p50_ms: Math.round(9000 + 4000 * Math.sin(at)), p95_ms: Math.round(41_000 + 18_000 * Math.cos(at / 2)) }));
  return { since: ago(length * 3600_000), hours, total: { answered: hours.reduce((sum, one) => sum + one.answered, 0), failed: 25, stopped: 3, p50_ms: 9000, p95_ms: 41_000 }, cut: false, senders: [{ channel: 'local', sender: text('owner'), messages: 71, tokens: 903_000 }, { channel: 'local', sender: 'ci', messages: 40, tokens: 238_000 }, { channel: 'a2a', sender: 'mallory', messages: 12, tokens: 33_000 }], failures: [{ class: 'transient', messages: 14 }, { class: 'capacity', messages: 9 }, { class: 'permanent', messages: 2 }] };
}

/** A record with right sums and a right signature, as `docs/formats.md` has it. */
function record(text) {
  const framed = (fields) => fields.map((field) => `${Buffer.byteLength(field)}:${field}`).join('');
  let before = '';
  const entries = Array.from({ length: 120 }, (_, at) => {
    const at_ms = Date.now() - (120 - at) * 7 * MINUTE;
    const entry = { row: at + 1, at: new Date(at_ms).toISOString(), at_ms, actor: text(['local owner', 'ci', 'phone'][at % 3]), what: ['decide', 'redrive', 'token-add', 'cancel'][at % 4], subject: text(`m-${at}`), detail: text(at % 4 ? '' : 'accept → “git push”'), sum: '' };
    entry.sum = createHash('sha256').update(framed([before, String(entry.row), String(at_ms), entry.actor, entry.what, entry.subject, entry.detail])).digest('hex');
    before = entry.sum;
    return entry;
  }).reverse();
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32);
  const signature = sign(null, Buffer.from(`codex-bridge audit 1\n${framed(['0', '', before])}`), privateKey).toString('base64');
  return { entries, ends: { removed: null, newest: before, base: 0 }, before: null, public_key: `ed25519:${raw.toString('base64')}`, signature, next: null };
}
