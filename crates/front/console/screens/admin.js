/** Access, rules, audit, health, figures. */

import {
  Act, Ago, asApiError, Badge, bytes, Confirm, counted, Dialog, Empty, everything, Facts, Field, format, full, get, Head, hex, html, line, Loading, notify, post,
  Problem, remove, Rows, save, Select, short, signOut, span, Table, typed, useEffect, useMemo, useRef, useRows, useState, when,
} from '../app.js';
const SCOPES = [
  ['read', 'see messages, tasks, questions, events and figures'],
  ['send', 'send messages, in conversations of their own'],
  ['control', 'start and stop work, decline what Codex asks, act on failed messages'],
  ['approve', 'accept what Codex asks: it may run outside of the sandbox, with your rights'],
  ['admin', 'everything: counts as owner'],
  ['a2a', 'give Codex tasks as another agent'],
];
const OWNER = ['read', 'send', 'control', 'approve', 'admin'];
const RISKY = ['approve', 'admin'];
const scopes = (some) => some.map((scope) => html`<${Badge} tone=${RISKY.includes(scope) ? 'waits' : ''}>${line(scope, 20)}<//> `);

function Make({ onClose, reload }) {
  const [name, setName] = useState('');
  const [chosen, setChosen] = useState(['read']);
  const [made, setMade] = useState(/** @type {Api.TokenMade?} */ (null));
  const make = async () => {
    setMade(await post('tokens', { name: name.trim(), scopes: chosen }));
    reload();
  };
  const copy = async () => {
    if (!navigator.clipboard) throw new Error('This browser copies only on https or localhost: select the text.');
    await navigator.clipboard.writeText(made?.token ?? '');
  };
  if (made) {
    return html`<${Dialog} title="Token ${made.name}" onClose=${onClose}>
      <p><strong>It is shown once.</strong> Keep it where your secrets are; a lost one is revoked and made anew.</p>
      <input class="secret" readonly aria-label="The token" value=${made.token} onFocus=${({ target }) => target.select()} />
      <div class="actions"><${Act} tone="primary" done="Copied." act=${copy}>Copy<//><button onClick=${onClose}>I have it</button></div><//>`;
  }
  return html`<${Dialog} title="Make a token" onClose=${onClose}>
    <${Field} label="Name" value=${name} placeholder="ci" maxlength="64" onInput=${typed(setName)} />
    <fieldset><legend>What its holder may do</legend>${SCOPES.map(([scope, what]) => html`<label class="choice" key=${scope}>
      <input type="checkbox" checked=${chosen.includes(scope)} onChange=${({ target }) => setChosen(target.checked ? [...chosen, scope] : chosen.filter((one) => one !== scope))} />
      <span><strong>${scope}</strong><small>${what}</small></span></label>`)}
      <button class="link" onClick=${() => setChosen(OWNER)}>Like the owner</button></fieldset>
    ${chosen.some((scope) => RISKY.includes(scope)) && html`<p class="remark">Whoever has this token can let commands run with your rights.</p>`}
    <div class="actions"><${Act} tone="primary" disabled=${!name.trim() || chosen.length === 0} act=${make}>Make it<//></div><//>`;
}

/** @param {Props.Revoke} _ */
function Revoke({ token, onClose, reload }) {
  const act = async () => {
    const done = await remove(`tokens/${encodeURIComponent(token.name)}`);
    notify(`${token.name} is revoked${done?.cancelled ? `; ${counted(done.cancelled, 'message')} of its holder cancelled` : ''}.`);
    reload();
  };
  return html`<${Confirm} title="Revoke ${line(token.label ?? token.name, 60)}?" yes="Revoke" act=${act} onClose=${onClose}>
    <p>Its holder is refused from now on, and what they sent and nobody has begun is cancelled. It can’t be taken back.</p><//>`;
}

const HEADS = ['Name', 'May', 'Made', 'Last used', 'Ends', html`<span class="spoken">Acts</span>`];

/** @param {Props.Tokens} _ */
const Tokens = ({ tokens, title, none, revoke, own }) => html`<section class="card wide"><h2>${title}</h2>${tokens.length === 0 ? html`<p class="dim">${none}</p>`
  : html`<${Table} label=${title} heads=${HEADS}>${tokens.map((token) => html`<tr key=${token.name} class=${token.revoked_at && 'over'}>
    <td>${short(token.label ?? token.name, 64)} ${token.name === own && html`<${Badge} tone="own">this one<//>`}${token.kind === 'login' && html`<${Badge} tone="waits">code not used yet<//>`}</td>
    <td>${scopes(token.scopes)}</td><td>${when(token.created_at)}</td><td>${token.last_used_at ? html`<${Ago} at=${token.last_used_at} />` : html`<span class="dim">never</span>`}</td>
    <td>${token.revoked_at && 'revoked '}${when(token.revoked_at ?? token.expires_at)}</td>
    <td>${!token.revoked_at && html`<button onClick=${() => revoke(token)} aria-label="Revoke ${line(token.label ?? token.name, 64)}">Revoke</button>`}</td></tr>`)}<//>`}</section>`;

/** @param {Props.Budget} _ */
const Budget = ({ sender: { used, budget } }) => html`${/** @type {const} */ (['turns', 'tokens', 'bytes']).map((name) => {
  const limit = budget?.[name];
  const shown = name === 'bytes' ? bytes : (count) => count.toLocaleString();
  return used[name] != null && html`<div class="meta">${limit != null && html`<meter aria-label=${`${name} used`} value=${used[name]} max=${limit}></meter>`}
    ${shown(used[name])}${limit != null && ` of ${shown(limit)}`} ${name === 'bytes' ? 'stored' : name}</div>`;
})}`;

function Senders() {
  const { value, error } = useRows(() => get('senders'), []);
  if (!value) return html`<${Loading} error=${error} what="who wrote" />`;
  return html`<section class="card wide"><h2>Who wrote in the last 24 hours</h2>${value.senders.length === 0
    ? html`<p class="dim">Nobody. Other agents get a token with <code>codex-bridge peers add NAME</code>.</p>`
    : html`<${Table} label="Who wrote" heads=${['Sender', 'Over', 'Tier', 'Messages', 'Newest', 'Used']}>${value.senders.map((sender) => html`<tr key=${`${sender.channel} ${sender.sender}`}>
      <td>${short(sender.sender, 64)}</td><td>${short(sender.channel, 40)}</td>
      <td><${Badge} tone=${sender.tier === 'owner' ? 'own' : 'foreign'}>${line(sender.tier, 20)}<//></td>
      <td class="number">${sender.messages.toLocaleString()}</td><td><${Ago} at=${sender.newest_at} /></td>
      <td><${Budget} sender=${sender} />${sender.waits_until && html`<span class="reason">waits until ${when(sender.waits_until)}</span>`}</td></tr>`)}<//>`}
    ${value.left > 0 && html`<p class="dim">and ${value.left.toLocaleString()} more</p>`}</section>`;
}

export function Access({ session }) {
  const { value, error, reload } = useRows(() => get('tokens'), []);
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState(null);
  const tokens = (kinds) => value?.tokens.filter(({ kind }) => kinds.includes(kind ?? 'token'));
  const leave = () => signOut().then(() => location.reload());
  return html`
    <${Head} title="Access" sub="Who may do what">${value && html`<button class="primary" onClick=${() => setMaking(true)}>Make a token</button>`}<//>
    ${session && html`<section class="card"><h2>This page</h2><${Facts} rows=${[['Signed in as', short(session.name)],
      ['May', scopes(session.scopes)], ['Until', session.expires_at && when(session.expires_at)]]} />
      <div class="actions"><${Act} act=${leave}>Sign out<//></div></section>`}
    ${!value ? html`<${Loading} error=${error} what="tokens" again=${reload} />` : html`<${Problem} error=${error} what="tokens" again=${reload} />
      <${Tokens} title="Sessions of the console" tokens=${tokens(['session', 'login'])} revoke=${setRevoking} own=${session?.name}
        none=${html`None beside this. A phone gets one with <code>codex-bridge console --phone</code>.`} />
      <${Tokens} title="Tokens" tokens=${tokens(['token'])} revoke=${setRevoking} own=${session?.name} none="None. Programs and other machines need one." /><${Senders} />`}
    ${making && html`<${Make} onClose=${() => setMaking(false)} reload=${reload} />`}
    ${revoking && html`<${Revoke} token=${revoking} reload=${reload} onClose=${() => setRevoking(null)} />`}`;
}

// Rules.

const TIERS = [['owner', 'owner: you'], ['tool', 'tool: holders of tokens'], ['peer', 'peer: other agents and strangers']];
const KINDS = [['command', 'a command'], ['file_change', 'a change of files'], ['mcp_tool', 'a tool of an MCP server']];
const RULINGS = {
  allow: ['good', 'Allowed: it is done without asking.'], ask: ['waits', 'Asked: somebody decides.'], deny: ['failed', 'Denied: it is declined without asking.'],
};

const Ruling = ({ word }) => (word ? html`<${Badge} tone=${RULINGS[word]?.[0] ?? 'waits'}>${line(word, 20)}<//>` : html`<span class="dim">not known</span>`);

/** @param {Props.Explained} _ */
const Found = ({ found }) => html`<section class="card answer-why" aria-live="polite">
  <p class="now-big"><${Ruling} word=${found.decision} /> ${RULINGS[found.decision]?.[1]}</p><p>${full(found.why)}</p>
  <${Facts} rows=${[['Rule', found.rule ? html`<strong>${short(found.rule)}</strong>` : 'none matches'],
    ['Decides', found.who && (found.who === 'sender' ? 'the owner, or whoever sent the message' : 'the owner')],
    ['Sandbox', short(found.sandbox)], ['Asked at all', full(found.asked)],
    ['Accept means', full(found.accept_means)], ['Silence is a decline after', found.deadline_secs && span(found.deadline_secs * 1000)]]} />
  ${found.rules.length > 0 && html`<details><summary>${counted(found.rules.length, 'rule')}, in order</summary><ol class="short">${found.rules.map((rule) => html`<li>
    <${Ruling} word=${rule.then} /> <strong>${short(rule.name, 80)}</strong> <span class="dim">
      ${rule.matches ? 'matches' : full(rule.why_not ?? 'does not match')}</span></li>`)}</ol></details>`}</section>`;

function LastWeek() {
  const [asked, setAsked] = useState(/** @type {Api.ReplayEntry[]?} */ (null));
  const [all, setAll] = useState(false);
  const look = () => everything('policy/replay', 'requests', { days: 7 }).then(setAsked);
  const differ = asked?.filter((one) => one.differs) ?? [];
  const shown = (all && asked) || differ;
  return html`<section class="card"><h2>The last week</h2><p class="dim">What the rules of now would do with what Codex really asked.</p>
    ${!asked ? html`<div class="actions"><${Act} act=${look}>Look<//></div>`
      : html`<p role="status">${counted(asked.length, 'question')}, ${differ.length === 0 ? 'all ruled as they would be now' : `${differ.length} would be ruled otherwise now`}.
        ${asked.length > differ.length && html` <button class="link" onClick=${() => setAll(!all)}>${all ? 'Only those' : 'Show all'}</button>`}</p>`}
    ${shown.length > 0 && html`<${Table} label="Questions of the last week" heads=${['Question', 'From', 'Was', 'Would be', 'By']}>${shown.slice(0, 200).map((one) => html`<tr key=${one.request_id}>
      <td><a href="#/requests/${one.request_id}">${short(one.headline, 100)}</a> <span class="dim">${when(one.created_at)}</span></td>
      <td>${short(one.sender, 40)}</td><td><${Ruling} word=${one.then} /> <span class="dim">${line(one.decision, 20)}</span></td>
      <td><${Ruling} word=${one.now} /></td><td title=${line(one.why, 300)}>${short(one.rule ?? 'no rule', 60)}</td></tr>`)}<//>`}</section>`;
}

export function Rules() {
  const [asked, setAsked] = useState({ tier: 'tool', kind: 'command', command: '', paths: '', server: '', tool: '', cwd: '', escalated: false });
  const [found, setFound] = useState(/** @type {Api.ExplainView?} */ (null));
  const [error, setError] = useState(null);
  const set = (name, value) => setAsked({ ...asked, [name]: value });
  const field = (name) => ({ value: asked[name], onInput: ({ target }) => set(name, target.value) });
  const explain = (event) => {
    event.preventDefault();
    const { tier, kind, command, server } = asked;
    const of = kind === 'command' ? { command } : kind === 'mcp_tool' ? { server, tool: asked.tool || undefined }
      : { paths: asked.paths.split('\n').map((path) => path.trim()).filter(Boolean) };
    const settle = (answer, failed) => {
      setFound(answer);
      setError(failed);
    };
    post('policy/explain', { tier, kind, ...of, cwd: asked.cwd || undefined, escalated: asked.escalated || undefined })
      .then((answer) => settle(answer, null), (failed) => settle(null, asApiError(failed)));
  };
  return html`
    <${Head} title="Rules" sub="What would happen, by which rule. Nothing is done." />
    <form class="card" onSubmit=${explain}>
      <div class="fields">
        <${Select} label="Whose turn asks" options=${TIERS} ...${field('tier')} /><${Select} label="For what" options=${KINDS} ...${field('kind')} />
        <${Field} label="Directory" placeholder="/home/you/project" ...${field('cwd')} /></div>
      ${asked.kind === 'command' && html`<${Field} label="Command" required placeholder="git push origin main" ...${field('command')} />`}
      ${asked.kind === 'file_change' && html`<label class="field">Files, one on each line
        <textarea rows="3" required placeholder="/srv/work/.git/config" spellcheck=${false} ...${field('paths')}></textarea></label>`}
      ${asked.kind === 'mcp_tool' && html`<div class="fields"><${Field} label="Server" required ...${field('server')} /><${Field} label="Tool" ...${field('tool')} /></div>`}
      <label class="choice"><input type="checkbox" checked=${asked.escalated} onChange=${({ target }) => set('escalated', target.checked)} />
        <span>Codex says that it wants out of the sandbox</span></label>
      <div class="actions"><button class="primary" type="submit">Explain</button></div></form>
    <${Problem} error=${error} what="policy simulator" />
    ${found && html`<${Found} found=${found} />`}<${LastWeek} />`;
}

// Audit. Each row is summed with the one before, and the ends are signed with the database's key (`docs/formats.md`).

const encoder = new TextEncoder();

/** Each field with its length in bytes, so that no text can move from one to the next. */
const framed = (fields) => fields.map((field) => `${encoder.encode(String(field)).length}:${field}`).join('');

/** @param {Api.AuditEntryView} entry */
async function sumOf({ row, at_ms, actor, what, subject, detail }, before) {
  const digest = await crypto.subtle.digest('SHA-256', encoder.encode(framed([before, row, at_ms, actor, what, subject, detail])));
  return hex(new Uint8Array(digest));
}

const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

const finding = (tone, words) => ({ tone, words });

/** @param {AuditPart} part the whole record, or its newest part */
async function verifyChain({ entries, ends, before }) {
  if (!ends) return finding('waits', 'The daemon gave no ends of the record: its rows can’t be held against anything.');
  let last = before ?? null;
  let [chained, older, unsigned] = [0, 0, 0];
  for (const entry of entries.toReversed()) {
    const { row, sum } = entry;
    if (row === ends.base + 1 && entry.what === 'record-unsigned') unsigned = row;
    if (row <= ends.base) {
      last = await sumOf(entry, last ?? '');
      older += 1;
    } else if (sum == null) {
      if (last !== null) return finding('failed', `Row ${row} has lost its sum.`);
      older += 1;
    } else if (await sumOf(entry, last ?? '') !== sum) {
      return finding('failed', `Row ${row} does not follow from the row before it: one of them was edited, or rows between them were removed.`);
    } else {
      last = sum;
      chained += 1;
    }
  }
  if ((ends.newest ?? ends.removed ?? null) !== last) return finding('failed', 'Rows at the end were removed, or written by something else.');
  if (unsigned) return finding('failed', `Row ${unsigned} says that what is before it was not signed by this database’s key when the daemon found it; rows from ${unsigned} on are sound.`);
  return finding('good', `${chained} rows follow from each other${older > 0 ? `; ${older} are from before the key` : ''}.`);
}

/** @param {AuditPart} part*/
async function verifySignature({ ends, public_key: shown, signature }, known) {
  if (!ends || !signature || !(known || shown)) return finding('waits', 'The record is not signed: this database has no key.');
  if (known && shown && known !== shown) return finding('failed', 'It is signed by another key than the one you trust.');
  try {
    const bytes = fromBase64((known || shown || '').replace(/^ed25519:/, ''));
    const key = await crypto.subtle.importKey('raw', bytes, { name: 'Ed25519' }, false, ['verify']);
    const signed = encoder.encode(`codex-bridge audit 1\n${framed([ends.base, ends.removed ?? '', ends.newest ?? ''])}`);
    if (await crypto.subtle.verify('Ed25519', key, fromBase64(signature), signed)) return finding('good', `The ends are signed by the ${known ? 'key that you trust' : 'database’s key'}.`);
    return finding('failed', 'The signature is wrong: the record was changed without the database’s key.');
  } catch (error) {
    return finding('waits', `This browser can’t verify Ed25519 signatures (${/** @type {Error} */ (error).name}): use \`codex-bridge audit\`.`);
  }
}

const READ_MAX = 20_000;
const PAGE = 500;

async function record() {
  const first = await get('audit', { limit: PAGE });
  const entries = [...first.entries];
  let page = first;
  while (page.next && entries.length < READ_MAX) {
    page = await get('audit', { limit: PAGE, before: page.next });
    entries.push(...page.entries);
  }
  return { ...first, before: page.before, entries, whole: !page.next };
}

const cell = (value) => `"${String(value ?? '').replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;

const COLUMNS = ['row', 'at', 'actor', 'what', 'subject', 'detail', 'sum'];

/** @param {Api.AuditEntryView[]} entries */
const asCsv = (entries) => [COLUMNS, ...entries.map((entry) => COLUMNS.map((name) => entry[name]))].map((row) => row.map(cell).join(',')).join('\r\n');

function Verified({ part }) {
  const [known, setKnown] = useState('');
  const [found, setFound] = useState([]);
  const possible = globalThis.crypto?.subtle;
  useEffect(() => {
    let left = !possible;
    if (!left) Promise.all([verifyChain(part), verifySignature(part, known.trim())]).then((next) => left || setFound(next));
    return () => { left = true; };
  }, [part, known]);
  if (!possible) return html`<p class="remark">A browser verifies only on https or localhost. There: <code>codex-bridge audit</code>.</p>`;
  return html`<section class="card verified" aria-live="polite"><h2>Verified in this browser</h2>
    ${['chain', 'signature'].map((what, at) => html`<p><${Badge} tone=${found[at]?.tone ?? 'waits'}>${what}<//> ${found[at]?.words ?? 'Looking…'}</p>`)}
    ${!part.whole && html`<p class="dim">The newest ${part.entries.length.toLocaleString()} rows; <code>codex-bridge audit</code> reads all.</p>`}
    <details><summary>Key</summary><p>The daemon’s: <code>${full(part.public_key ?? 'none')}</code></p>
      <${Field} label="The key that you trust, written down elsewhere" value=${known} placeholder="ed25519:…" onInput=${typed(setKnown)} /></details></section>`;
}

/** @param {Api.AuditEntryView} entry */
const draw = (entry) => html`<div class="row entry"><span class="dim number">${entry.row}</span>${when(entry.at)}<strong>${short(entry.what, 30)}</strong>
  <span class="what">${short(entry.actor, 60)} <code>${line(entry.subject, 60)}</code> <span class="dim">${short(entry.detail, 200)}</span></span></div>`;

export function Audit() {
  const { value: part, error, reload } = useRows(record, []);
  const [sought, setSought] = useState('');
  const [what, setWhat] = useState('');
  const shown = useMemo(() => {
    const wanted = sought.trim().toLowerCase();
    return part?.entries.filter((entry) => (!what || entry.what === what)
      && [entry.actor, entry.subject, entry.detail, entry.what].some((text) => text.toLowerCase().includes(wanted)));
  }, [part, sought, what]);
  if (!part || !shown) return html`<${Loading} error=${error} what="record of acts" again=${reload} />`;
  const none = part.entries.length === 0;
  const acts = [...new Set(part.entries.map((entry) => entry.what))].sort();
  const json = () => JSON.stringify({ ...part, ok: undefined, whole: undefined }, null, 1);
  return html`
    <${Head} title="Audit" sub="What people did by hand">
      <button onClick=${() => save('audit.csv', new Blob([asCsv(shown)]))}>Export ${shown.length.toLocaleString()} as CSV</button>
      <button title="Can be verified elsewhere: codex-bridge audit --file" onClick=${() => save('audit.json', new Blob([json()]))}>Export all as JSON</button><//>
    <${Problem} error=${error} what="record of acts" again=${reload} /><${Verified} part=${part} />
    <div class="filters"><input type="search" placeholder="Who, what, which id" aria-label="Filter the record" value=${sought} onInput=${typed(setSought)} />
      <${Select} inline label="Act" options=${[['', 'all'], ...acts.map((name) => [name, line(name, 40)])]} value=${what} onInput=${typed(setWhat)} />
      <span class="dim" role="status">${counted(shown.length, 'row')}</span></div>
    ${shown.length > 0 ? html`<${Rows} rows=${shown} height=${41} label="Acts, newest first" id=${(entry) => entry.row} draw=${draw} />`
      : html`<${Empty} title=${none ? 'Nothing was done by hand' : 'Nothing fits'}><p>${none ? 'Decisions, retries, tokens and stops are written down here.' : 'Look for less.'}</p><//>`}`;
}

// Health.

const READ_EVERY_MS = 5000;

const SUMMARY = [
  ['waiting_for_you', 'wait for you'], ['working', 'working'], ['waiting', 'queued'], ['sending', 'on their way'], ['unclear', 'unclear'],
  ['dead', 'failed'], ['answered_24h', 'answered in 24 h'], ['answered', 'answered'],
];
const ATTENTION = ['questions open', 'wait for you', 'unclear', 'failed'];
const TONES = { receiving: 'good', sound: 'good', ready: 'good', active: 'good', damaged: 'failed', parked: 'failed', gone: 'failed' };

const State = ({ state }) => html`<${Badge} tone=${TONES[state] ?? 'waits'}>${short(state, 30)}<//>`;
const strong = (text) => text && html`<strong>${full(text)}</strong>`;

/** @param {Props.Database} _ */
const Database = ({ ledger, size }) => html`<section class="card"><h2>Database ${ledger && html`<${State} state=${ledger.health} />`}</h2>
  ${ledger ? html`<${Facts} rows=${[['Closed', strong(ledger.closed)], ['Damage', strong(ledger.damage)], ['Size', size && bytes(size)],
    ['Free', ledger.free_bytes != null && `${bytes(ledger.free_bytes)}; below ${bytes(ledger.low_bytes)} nothing more is taken in`],
    ['Log', bytes(ledger.log_bytes)], ['Newest commit took', ledger.last_commit_ms != null && `${ledger.last_commit_ms} ms`],
    ['Remarks', ledger.warnings?.length ? ledger.warnings.map((text) => html`<p>${full(text)}</p>`) : null]]} />` : html`<p class="dim">Not known.</p>`}</section>`;

function Channels() {
  const { value, error } = useRows(() => get('channels'), []);
  return html`<section class="card"><h2>Channels</h2>${!value ? html`<${Loading} error=${error} what="channels" />` : html`<ul class="plain">${value.channels.map((channel) => html`<li key=${channel.channel}>
    <strong>${short(channel.channel, 60)}</strong> ${channel.state && html`<${State} state=${channel.state} />`}
    <span class="dim">${channel.since && html` since ${when(channel.since)}`} ${counted(channel.messages, 'message')} in 24 h</span>
    ${channel.detail && html`<p class="dim">${full(channel.detail)}</p>`}</li>`)}</ul>`}</section>`;
}

/** @param {Props.Nodes} _ */
function Nodes({ nodes, reload }) {
  /** @param {Api.NodeView} node @param {'activate' | 'drain'} verb */
  const act = (node, verb) => () => post(`nodes/${encodeURIComponent(node.node_id)}/${verb}`).then((done) => { notify(done.detail); reload(); });
  return html`<section class="card wide"><h2>Nodes</h2>
    <${Table} label="Nodes" heads=${['Node', 'State', 'Turns', 'Conversations', 'Lease', 'Version', 'Codex', html`<span class="spoken">Acts</span>`]}>${nodes.map((node) => html`<tr key=${node.node_id}>
      <td>${short(node.node_id, 40)}</td><td><${State} state=${node.state} />${!node.answers && html` <${Badge} tone="waits">answers nothing<//>`}</td>
      <td>${node.turns} of ${node.capacity}</td><td>${node.conversations}</td><td>${node.lease_ms != null && span(node.lease_ms)}</td>
      <td>${short(node.version)}</td><td>${short(node.codex_version)}</td>
      <td>${!node.gone_at && (node.state === 'draining' ? html`<${Act} act=${act(node, 'activate')}>Activate<//>` : html`<${Act} act=${act(node, 'drain')}>Drain<//>`)}</td></tr>`)}<//></section>`;
}

export function Health() {
  const { value: status, error, reload } = useRows(() => get('status'), []);
  useEffect(() => {
    const timer = setInterval(reload, READ_EVERY_MS);
    return () => clearInterval(timer);
  }, [reload]);
  if (!status) return html`<${Loading} error=${error} what="how the daemon is" again=${reload} />`;
  const { health, summary } = status;
  const questions = status.requests_waiting ?? 0;
  const readAgain = async () => {
    const { error, changed } = await post('reload');
    notify(error ?? (changed.length > 0 ? `Read again. Changed: ${changed.join(', ')}` : 'Read again: nothing changed.'));
  };
  const tile = (count, words) => html`<li key=${words} class=${count > 0 && ATTENTION.includes(words) && 'attention'}><b>${count.toLocaleString()}</b><span>${words}</span></li>`;
  return html`
    <${Head} title="Health" sub=${html`<${State} state=${health.ready ? 'ready' : 'not ready'} /> ${health.detail !== 'ready' && full(health.detail)}`}>
      <${Act} act=${readAgain}>Read the configuration again<//><//>
    <${Problem} error=${error} what="how the daemon is now" again=${reload} />
    <ul class="tiles" aria-label="Messages">${tile(questions, 'questions open')}${SUMMARY.map(([name, words]) => tile(summary[name], words))}</ul>
    <div class="grid">
      <section class="card"><h2>Codex</h2><p>${full(health.codex)}</p><${Facts} rows=${[
        ['Questions', questions > 0 && html`<a href="#/requests">${counted(questions, 'question')} open</a>`],
        ['Oldest without an answer', status.oldest_unanswered_at && html`<${Ago} at=${status.oldest_unanswered_at} />`],
        ['Suspects', status.suspects > 0 && `${counted(status.suspects, 'message')} under which Codex died; one at a time`],
        ['Sent again', status.replies_retried > 0 && counted(status.replies_retried, 'reply', 'replies')],
        ['codex-bridge', `${health.version}, pid ${health.pid}`]]} /></section>
      <${Database} ledger=${health.ledger} size=${status.ledger_bytes} /><${Channels} />
      ${health.reload && html`<section class="card"><h2>Configuration</h2><p>Read <${Ago} at=${health.reload.at} />. ${strong(health.reload.error)}</p>
        ${health.reload.needs_restart.length > 0 && html`<p>After a restart: ${full(health.reload.needs_restart.join(', '))}</p>`}
        ${health.reload.warnings.map((text) => html`<p>${full(text)}</p>`)}</section>`}
      ${status.nodes?.length ? html`<${Nodes} nodes=${status.nodes} reload=${reload} />` : ''}</div>`;
}

// Figures, as inline SVG; each drawing has its numbers as a table, too.

const [HEIGHT, LEFT, TOP, BOTTOM] = [190, 46, 10, 22];
const PLOT = HEIGHT - TOP - BOTTOM;
const LABEL_PX = 72;

function ceiling(largest) {
  const step = 10 ** Math.floor(Math.log10(Math.max(largest, 1)));
  return [1, 2, 2.5, 5, 10].map((by) => by * step).find((round) => round >= largest) ?? largest;
}

function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry?.contentRect.width ?? 0)));
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return { ref, width };
}

function Plot({ label, labels, series, format, draw }) {
  const { ref, width } = useWidth();
  const top = ceiling(Math.max(...series.flatMap(({ values }) => values.map((value) => value ?? 0))));
  const step = (width - LEFT) / Math.max(labels.length, 1);
  const x = (at) => LEFT + step * (at + 0.5);
  const y = (value) => TOP + PLOT * (1 - value / top);
  const every = Math.ceil(labels.length / Math.max(1, Math.floor(width / LABEL_PX)));
  return html`<div class="chart" ref=${ref}>
    ${width > 0 && html`<svg viewBox="0 0 ${width} ${HEIGHT}" height=${HEIGHT} aria-hidden="true">
      ${[0, top / 2, top].map((value) => html`<line class="axis" x1=${LEFT} x2=${width} y1=${y(value)} y2=${y(value)} />
        <text x=${LEFT - 8} y=${y(value) + 4} text-anchor="end">${format(value)}</text>`)}
      ${labels.map((name, at) => at % every === 0 && html`<text x=${x(at)} y=${HEIGHT - 4} text-anchor="middle">${name}</text>`)}
      ${draw(x, y, step)}</svg>`}
    <table class="spoken"><caption>${label}</caption><thead><tr><th>when</th>${series.map(({ name }) => html`<th>${name}</th>`)}</tr></thead>
      <tbody>${labels.map((name, at) => html`<tr><td>${name}</td>${series.map(({ values }) => html`<td>${values[at] != null && format(Number(values[at]))}</td>`)}</tr>`)}</tbody></table></div>`;
}

const whole = (value) => (Number.isInteger(value) ? value.toLocaleString(undefined, { notation: value >= 10_000 ? 'compact' : 'standard' }) : '');

const Columns = ({ label, labels, values }) => html`<${Plot} format=${whole} labels=${labels} label=${label} series=${[{ name: 'how many', values }]}
  draw=${(x, y, step) => values.map((value, at) => html`<rect class="column" x=${x(at) - step * 0.38} y=${y(value)} width=${step * 0.76} height=${TOP + PLOT - y(value)} rx="2">
    <title>${labels[at]}: ${value}</title></rect>`)} />`;

const Lines = ({ series, labels, label }) => html`<${Plot} format=${span} labels=${labels} label=${label} series=${series}
    draw=${(x, y) => series.map(({ values }, index) => html`
      <polyline class="line s${index}" points=${values.flatMap((value, at) => (value == null ? [] : `${x(at)},${y(value)}`)).join(' ')} />
      ${values.map((value, at) => value != null && html`<circle class="line s${index}" cx=${x(at)} cy=${y(value)} r="2.5"><title>${labels[at]}: ${span(value)}</title></circle>`)}`)} />
  <p class="legend">${series.map(({ name }, index) => html`<span class="s${index}"><i aria-hidden="true"></i>${name}</span>`)}</p>`;

function Bars({ rows, label, tone = '' }) {
  const shown = rows.filter(([, value]) => value > 0).toSorted((a, b) => b[1] - a[1]).slice(0, 12);
  const top = shown[0]?.[1];
  if (!top) return html`<p class="dim">None.</p>`;
  return html`<table class="bars"><caption class="spoken">${label}</caption><tbody>${shown.map(([name, value]) => html`<tr key=${name}>
    <th scope="row"><bdi>${line(name, 40)}</bdi></th><td><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="column ${tone}" width=${Math.max(1, (100 * value) / top)} height="10" rx="1" /></svg></td><td class="number">${value.toLocaleString()}</td></tr>`)}</tbody></table>`;
}

const DAY = 24;
const REACHES = [{ reach: DAY, words: 'a day', options: { hour: '2-digit', minute: '2-digit' } }, { reach: 7 * DAY, words: 'a week', options: { weekday: 'short', hour: '2-digit' } }];

export function Figures() {
  const [hours, setHours] = useState(DAY);
  const { value, error, reload } = useRows(() => get('figures', { hours }), [hours]);
  if (!value) return html`<${Loading} error=${error} what="figures" again=${reload} />`;
  const label = format(REACHES.find(({ reach }) => reach === hours)?.options);
  const labels = value.hours.map(({ at }) => label(at));
  const { answered, failed, stopped } = value.total;
  const card = (title, drawn, wide) => html`<section class="card ${wide && 'wide'}"><h2>${title}</h2>${drawn}</section>`;
  return html`
    <${Head} title="Figures" sub=${`${answered.toLocaleString()} answered, ${failed.toLocaleString()} failed, ${stopped.toLocaleString()} stopped`}>
      <div class="chips" role="group" aria-label="How far back">${REACHES.map(({ reach, words }) => html`
        <button class="chip" aria-pressed=${hours === reach} onClick=${() => setHours(reach)}>${words}</button>`)}</div><//>
    <${Problem} error=${error} what="figures" again=${reload} />
    ${value.cut && html`<p class="remark">Only the newest 20,000 messages are counted, and there are more.</p>`}
    ${answered + failed + stopped === 0 ? html`<${Empty} title="Nothing to draw yet"><p>No message ended since ${when(value.since)}. Send one first.</p><//>` : html`<div class="grid">
      ${card('Answers by the hour', html`<${Columns} label="Answers by the hour" labels=${labels} values=${value.hours.map((hour) => hour.answered)} />`, true)}
      ${card('Time to answer', html`<${Lines} label="Time to answer by the hour" labels=${labels} series=${[
        { name: 'half are faster (p50)', values: value.hours.map((hour) => hour.p50_ms) }, { name: '95 of 100 are faster (p95)', values: value.hours.map((hour) => hour.p95_ms) }]} />`, true)}
      ${card('Tokens by sender', html`<${Bars} label="Tokens by sender" rows=${value.senders.map((one) => [one.sender, one.tokens])} />`)}
      ${card('Failures by class', html`<${Bars} label="Failures by class" rows=${value.failures.map((one) => [one.class, one.messages])} tone="failed" />`)}</div>`}`;
}
