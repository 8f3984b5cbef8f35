// @ts-check
/** How everything is: Codex, the database, the channels, the nodes, and how much is where. */

import { get, post } from '../lib/api.js';
import { html, useEffect } from '../lib/html.js';
import { notify } from '../lib/keys.js';
import { useRows } from '../lib/live.js';
import { Ago, When, bytes, counted, span } from '../lib/text.js';
import { Act, Badge, Facts, Head, Line, Loading, Problem, Text } from '../parts/basics.js';

const READ_EVERY_MS = 5000;

/** @type {[keyof Api.StatusView['summary'], string][]} */
const SUMMARY = [
  ['waiting_for_you', 'wait for you'], ['working', 'working'], ['waiting', 'queued'], ['sending', 'on their way'], ['unclear', 'unclear'],
  ['dead', 'failed'], ['answered_24h', 'answered in 24 h'], ['answered', 'answered'],
];

/** @param {Props.State} _ */
function State({ state }) {
  const tone = ['receiving', 'sound', 'ready', 'active'].includes(state) ? 'good' : ['damaged', 'parked', 'gone'].includes(state) ? 'failed' : 'waits';
  return html`<${Badge} tone=${tone}><${Line} text=${state} length=${30} /><//>`;
}

/** @param {Props.Database} _ */
const Database = ({ ledger, size }) => html`<section class="card"><h2>Database ${ledger && html`<${State} state=${ledger.health} />`}</h2>
  ${ledger ? html`<${Facts} rows=${[
    ['Closed', ledger.closed && html`<strong><${Text} text=${ledger.closed} /></strong>`],
    ['Damage', ledger.damage && html`<strong><${Text} text=${ledger.damage} /></strong>`],
    ['Size', size != null && bytes(size)],
    ['Free', ledger.free_bytes != null && `${bytes(ledger.free_bytes)}; below ${bytes(ledger.low_bytes)} nothing more is taken in`],
    ['Log', bytes(ledger.log_bytes)],
    ['Newest commit took', ledger.last_commit_ms != null && `${ledger.last_commit_ms} ms`],
    ['Remarks', (ledger.warnings?.length ?? 0) > 0 && ledger.warnings?.map((text) => html`<p><${Text} text=${text} /></p>`)]]} />`
      : html`<p class="dim">Not known.</p>`}
</section>`;

/** How each channel is, and what came over it where the daemon counts. @param {Props.Channels} _ */
function Channels({ known }) {
  const { value } = useRows(async () => /** @type {Api.ChannelEntry[]} */ ((await get('channels')).channels), []);
  const channels = (value ?? known).map((one) => ({ messages: null, ...one }));
  return html`<section class="card"><h2>Channels</h2>${channels.length === 0
    ? html`<p class="dim">None that could be away. Terminals, HTTP, MCP and A2A are always there.</p>`
    : html`<ul class="plain">${channels.map((channel) => html`<li key=${channel.channel}><strong><${Line} text=${channel.channel} length=${60} /></strong>
      ${channel.state && html` <${State} state=${channel.state} />`} ${channel.since && html`<span class="dim">since <${When} at=${channel.since} /></span>`}
      ${channel.messages !== null && html` <span class="dim">${counted(channel.messages, 'message')} in 24 h</span>`}${channel.detail
        && html`<p class="dim"><${Text} text=${channel.detail} /></p>`}</li>`)}</ul>`}</section>`;
}

/** @param {Props.Nodes} _ */
function Nodes({ nodes, reload }) {
  const act = (/** @type {string} */ id, /** @type {string} */ verb) => () => post(`nodes/${encodeURIComponent(id)}/${verb}`).then((done) => { notify(done.detail); reload(); });
  return html`<section class="card wide"><h2>Nodes</h2><div class="scroll" tabindex="0" role="region" aria-label="Nodes"><table>
    <thead><tr><th>Node</th><th>State</th><th>Turns</th><th>Conversations</th><th>Lease</th><th>Version</th><th>Codex</th><th>
      <span class="spoken">Acts</span></th></tr></thead>
    <tbody>${nodes.map((node) => html`<tr key=${node.node_id}><td><${Line} text=${node.node_id} length=${40} /></td><td>
      <${State} state=${node.state} />${!node.answers && html` <${Badge} tone="waits">answers nothing<//>`}</td>
      <td>${node.turns} of ${node.capacity}</td><td>${node.conversations}</td><td>${node.lease_ms == null ? '' : span(node.lease_ms)}</td>
      <td><${Line} text=${node.version} /></td><td><${Line} text=${node.codex_version} /></td>
      <td>${!node.gone_at && (node.state === 'draining' ? html`<${Act} act=${act(node.node_id, 'activate')}>Activate<//>`
        : html`<${Act} act=${act(node.node_id, 'drain')}>Drain<//>`)}</td></tr>`)}</tbody></table></div></section>`;
}

export function Screen() {
  const { value: status, error, reload } = useRows(() => /** @type {Promise<Api.StatusView>} */ (get('status')), []);
  useEffect(() => {
    const timer = setInterval(reload, READ_EVERY_MS);
    return () => clearInterval(timer);
  }, [reload]);
  if (!status) return error ? html`<${Problem} error=${error} what="how the daemon is" again=${reload} />` : html`<${Loading} />`;
  const { health, summary } = status;
  return html`
    <${Head} title="Health" sub=${html`<${State} state=${health.ready ? 'ready' : 'not ready'} /> ${health.detail !== 'ready'
      && html`<${Text} text=${health.detail} />`}`}>
      <${Act} act=${() => post('reload').then((done) => notify(done.error ?? (done.changed.length > 0 ? `Read again. Changed: ${done.changed.join(', ')}` : 'Read again: nothing changed.')))}>Read the configuration again<//><//>
    ${error && html`<${Problem} error=${error} what="how the daemon is now" again=${reload} />`}
    <ul class="tiles" aria-label="Messages"><li class=${(status.requests_waiting ?? 0) > 0 ? 'attention' : ''}>
      <b>${(status.requests_waiting ?? 0).toLocaleString()}</b>
      <span>questions open</span></li>${SUMMARY.map(([name, words]) => html`<li key=${name} class=${summary[name] > 0 && ['dead', 'waiting_for_you', 'unclear'].includes(name) ? 'attention' : ''}>
      <b>${summary[name].toLocaleString()}</b><span>${words}</span></li>`)}</ul>
    <div class="grid">
      <section class="card"><h2>Codex</h2><p><${Text} text=${health.codex} /></p>
        <${Facts} rows=${[
          ['Questions', (status.requests_waiting ?? 0) > 0 && html`<a href="#/requests">${counted(status.requests_waiting ?? 0, 'question')} open</a>`],
          ['Oldest without an answer', status.oldest_unanswered_at && html`<${Ago} at=${status.oldest_unanswered_at} />`],
          ['Suspects', status.suspects > 0 && `${counted(status.suspects, 'message')} under which Codex died; one at a time`],
          ['Sent again', status.replies_retried > 0 && counted(status.replies_retried, 'reply', 'replies')],
          ['codex-bridge', `${health.version}, pid ${health.pid}`]]} /></section>
      <${Database} ledger=${health.ledger} size=${status.ledger_bytes} />
      <${Channels} known=${health.channels ?? []} />
      ${health.reload && html`<section class="card"><h2>Configuration</h2><p>Read <${Ago} at=${health.reload.at} />. ${health.reload.error
        && html`<strong><${Text} text=${health.reload.error} /></strong>`}</p>
        ${health.reload.needs_restart.length > 0 && html`<p>After a restart: <${Text} text=${health.reload.needs_restart.join(', ')} /></p>`}
        ${health.reload.warnings.map((text) => html`<p><${Text} text=${text} /></p>`)}</section>`}
      ${(status.nodes?.length ?? 0) > 0 && html`<${Nodes} nodes=${status.nodes ?? []} reload=${reload} />`}
    </div>`;
}
