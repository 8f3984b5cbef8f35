// @ts-check
/** How everything is: Codex, the database, the channels, the nodes, and how much is where. */

import { get, post } from '../lib/api.js';
import { html, useEffect } from '../lib/html.js';
import { useRows } from '../lib/load.js';
import { notify } from '../lib/notices.js';
import { bytes, counted } from '../lib/text.js';
import { Ago, When, span } from '../lib/time.js';
import { Act, Badge, Facts, Head, Line, Loading, Problem, Text } from '../parts/basics.js';

/** @typedef {import('../../console-types/api').StatusView} StatusView */
/** @typedef {import('../../console-types/api').NodeView} NodeView */

const READ_EVERY_MS = 5000;

/** @type {[keyof StatusView['summary'], string][]} */
const SUMMARY = [
  ['waiting_for_you', 'wait for you'], ['working', 'working'], ['waiting', 'queued'], ['sending', 'on their way'], ['unclear', 'unclear'],
  ['dead', 'failed'], ['answered_24h', 'answered in 24 h'], ['answered', 'answered'], ['cancelled', 'stopped'],
];

/** @param {{ state: string }} props */
function State({ state }) {
  const tone = ['receiving', 'sound', 'ready', 'active'].includes(state) ? 'good' : ['damaged', 'parked', 'gone'].includes(state) ? 'failed' : 'waits';
  return html`<${Badge} tone=${tone}><${Line} text=${state} length=${30} /></${Badge}>`;
}

/** @param {{ ledger: StatusView['health']['ledger'], size: number | null | undefined }} props */
const Database = ({ ledger, size }) => html`<section class="card"><h2>Database ${ledger && html`<${State} state=${ledger.health} />`}</h2>
  ${ledger ? html`<${Facts} rows=${[
    ['Closed', ledger.closed && html`<strong><${Text} text=${ledger.closed} /></strong>`],
    ['Damage', ledger.damage && html`<strong><${Text} text=${ledger.damage} /></strong>`],
    ['Size', size != null && bytes(size)],
    ['Free', ledger.free_bytes != null && `${bytes(ledger.free_bytes)}; below ${bytes(ledger.low_bytes)} nothing more is taken in`],
    ['Log', bytes(ledger.log_bytes)],
    ['Newest commit took', ledger.last_commit_ms != null && `${ledger.last_commit_ms} ms`],
    ['Remarks', (ledger.warnings?.length ?? 0) > 0 && ledger.warnings?.map((text) => html`<p><${Text} text=${text} /></p>`)]]} />` : html`<p class="dim">Not known.</p>`}
</section>`;

/** @param {{ nodes: NodeView[], reload: () => void }} props */
function Nodes({ nodes, reload }) {
  const act = (/** @type {string} */ id, /** @type {string} */ verb) => () => post(`nodes/${encodeURIComponent(id)}/${verb}`).then((done) => { notify(done.detail); reload(); });
  return html`<section class="card wide"><h2>Nodes</h2><div class="scroll" tabindex="0" role="region" aria-label="Nodes"><table>
    <thead><tr><th>Node</th><th>State</th><th>Turns</th><th>Conversations</th><th>Lease</th><th>Version</th><th>Codex</th><th><span class="spoken">Acts</span></th></tr></thead>
    <tbody>${nodes.map((node) => html`<tr key=${node.node_id}><td><${Line} text=${node.node_id} length=${40} /></td><td><${State} state=${node.state} />${!node.answers && html` <${Badge} tone="waits">answers nothing</${Badge}>`}</td>
      <td>${node.turns} of ${node.capacity}</td><td>${node.conversations}</td><td>${node.lease_ms == null ? '' : span(node.lease_ms)}</td>
      <td><${Line} text=${node.version} /></td><td><${Line} text=${node.codex_version} /></td>
      <td>${!node.gone_at && (node.state === 'draining' ? html`<${Act} act=${act(node.node_id, 'activate')}>Activate</${Act}>` : html`<${Act} act=${act(node.node_id, 'drain')}>Drain</${Act}>`)}</td></tr>`)}</tbody></table></div></section>`;
}

export function Health() {
  const { value: status, error, reload } = useRows(() => /** @type {Promise<StatusView>} */ (get('status')), []);
  useEffect(() => {
    const timer = setInterval(reload, READ_EVERY_MS);
    return () => clearInterval(timer);
  }, [reload]);
  if (!status) return error ? html`<${Problem} error=${error} what="how the daemon is" again=${reload} />` : html`<${Loading} />`;
  const { health, summary } = status;
  return html`
    <${Head} title="Health" sub=${html`<${State} state=${health.ready ? 'ready' : 'not ready'} /> <${Text} text=${health.detail} />`}>
      <${Act} act=${() => post('reload').then((done) => notify(done.error ?? (done.changed.length > 0 ? `Read again. Changed: ${done.changed.join(', ')}` : 'Read again: nothing changed.')))}>Read the configuration again</${Act}></${Head}>
    ${error && html`<${Problem} error=${error} what="how the daemon is now" again=${reload} />`}
    <ul class="tiles" aria-label="Messages"><li class=${(status.requests_waiting ?? 0) > 0 ? 'attention' : ''}><b>${(status.requests_waiting ?? 0).toLocaleString()}</b><span>questions open</span></li>${SUMMARY.map(([name, words]) => html`<li key=${name} class=${summary[name] > 0 && ['dead', 'waiting_for_you', 'unclear'].includes(name) ? 'attention' : ''}>
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
      <section class="card"><h2>Channels</h2>${health.channels?.length ? html`<ul class="plain">${health.channels.map((channel) => html`<li key=${channel.channel}>
        <strong><${Line} text=${channel.channel} length=${60} /></strong> <${State} state=${channel.state} /> <span class="dim">since <${When} at=${channel.since} /></span>
        ${channel.detail && html`<p><${Text} text=${channel.detail} /></p>`}</li>`)}</ul>` : html`<p class="dim">None that could be away. Terminals, HTTP, MCP and A2A are always there.</p>`}</section>
      ${health.reload && html`<section class="card"><h2>Configuration</h2><p>Read <${Ago} at=${health.reload.at} />. ${health.reload.error && html`<strong><${Text} text=${health.reload.error} /></strong>`}</p>
        ${health.reload.needs_restart.length > 0 && html`<p>After a restart: <${Text} text=${health.reload.needs_restart.join(', ')} /></p>`}
        ${health.reload.warnings.map((text) => html`<p><${Text} text=${text} /></p>`)}</section>`}
      ${(status.nodes?.length ?? 0) > 0 && html`<${Nodes} nodes=${status.nodes ?? []} reload=${reload} />`}
    </div>`;
}
