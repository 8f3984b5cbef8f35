// @ts-check
/** Who may do what: tokens, sessions of the console, other agents; made and revoked here. */

import { get, post, remove, signOut } from '../lib/api.js';
import { html, useState } from '../lib/html.js';
import { useRows } from '../lib/load.js';
import { notify } from '../lib/notices.js';
import { bytes, counted, line } from '../lib/text.js';
import { Ago, When } from '../lib/time.js';
import { Act, Badge, Confirm, Dialog, Empty, Facts, Head, Line, Loading, Problem } from '../parts/basics.js';

/** @typedef {import('../../console-types/api').TokenView & { kind?: string, label?: string | null, expires_at?: string | null }} TokenView */
/** @typedef {import('../../console-types/api').TokenMade} TokenMade */
/** @typedef {import('../../console-types/ui').Session} Session */

/** @type {[string, string][]} */
const SCOPES = [
  ['read', 'see messages, tasks, questions, events and figures'],
  ['send', 'send messages, in conversations of their own'],
  ['control', 'start and stop work, decline what Codex asks, act on failed messages'],
  ['approve', 'accept what Codex asks: it may run outside of the sandbox, with your rights'],
  ['admin', 'everything: counts as owner'],
  ['a2a', 'give Codex tasks as another agent'],
];
const OWNER = ['read', 'send', 'control', 'approve', 'admin'];

/** @param {{ onClose: () => void, reload: () => void }} props */
function Make({ onClose, reload }) {
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState(/** @type {string[]} */ (['read']));
  const [made, setMade] = useState(/** @type {TokenMade | null} */ (null));
  const make = async () => {
    setMade(await post('tokens', { name: name.trim(), scopes }));
    reload();
  };
  const copy = async (/** @type {string} */ text) => {
    if (!navigator.clipboard) throw new Error('This browser copies only on https or localhost: select the text.');
    await navigator.clipboard.writeText(text);
  };
  if (made) {
    return html`<${Dialog} title="Token ${made.name}" onClose=${onClose}>
      <p><strong>It is shown once.</strong> Keep it where your secrets are; a lost one is revoked and made anew.</p>
      <p><input class="secret" readonly aria-label="The token" value=${made.token} onFocus=${(/** @type {any} */ event) => event.target.select()} /></p>
      <div class="actions"><${Act} tone="primary" done="Copied." act=${() => copy(made.token)}>Copy</${Act}><button onClick=${onClose}>I have it</button></div></${Dialog}>`;
  }
  const risky = scopes.includes('approve') || scopes.includes('admin');
  return html`<${Dialog} title="Make a token" onClose=${onClose}>
    <label class="field">Name<input value=${name} placeholder="ci" autocomplete="off" maxlength="64" onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
    <fieldset><legend>What its holder may do</legend>${SCOPES.map(([scope, what]) => html`<label class="choice" key=${scope}>
      <input type="checkbox" checked=${scopes.includes(scope)} onChange=${(/** @type {any} */ event) => setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))} />
      <span><strong>${scope}</strong><small>${what}</small></span></label>`)}
      <button class="link" onClick=${() => setScopes(OWNER)}>Like the owner</button></fieldset>
    ${risky && html`<p class="remark">Whoever has this token can let commands run with your rights.</p>`}
    <div class="actions"><${Act} tone="primary" disabled=${!name.trim() || scopes.length === 0} act=${make}>Make it</${Act}></div>
  </${Dialog}>`;
}

/** @param {{ token: TokenView, onClose: () => void, reload: () => void }} props */
function Revoke({ token, onClose, reload }) {
  const act = async () => {
    const done = await remove(`tokens/${encodeURIComponent(token.name)}`);
    notify(`${token.name} is revoked${done?.cancelled ? `; ${counted(done.cancelled, 'message')} of its holder cancelled` : ''}.`);
    reload();
  };
  return html`<${Confirm} title="Revoke ${line(token.label ?? token.name, 60)}?" yes="Revoke" act=${act} onClose=${onClose}>
    <p>Its holder is refused from now on, and what they sent and nobody has begun is cancelled. It can’t be taken back.</p></${Confirm}>`;
}

/** @param {{ tokens: TokenView[], title: string, revoke: (token: TokenView) => void, own: string | undefined, children?: any }} props */
function Table({ tokens, title, revoke, own, children }) {
  return html`<section class="card wide"><h2>${title}</h2>${tokens.length === 0 ? children : html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table>
    <thead><tr><th>Name</th><th>May</th><th>Made</th><th>Last used</th><th>Ends</th><th><span class="spoken">Acts</span></th></tr></thead>
    <tbody>${tokens.map((token) => html`<tr key=${token.name} class=${token.revoked_at ? 'over' : ''}>
      <td><${Line} text=${token.label ?? token.name} length=${64} />${token.name === own && html` <${Badge} tone="own">this one</${Badge}>`}</td>
      <td>${token.scopes.map((scope) => html`<${Badge} tone=${['admin', 'approve'].includes(scope) ? 'waits' : ''}>${line(scope, 20)}</${Badge}> `)}</td>
      <td><${When} at=${token.created_at} /></td><td>${token.last_used_at ? html`<${Ago} at=${token.last_used_at} />` : html`<span class="dim">never</span>`}</td>
      <td>${token.revoked_at ? html`revoked <${When} at=${token.revoked_at} />` : html`<${When} at=${token.expires_at} />`}</td>
      <td>${!token.revoked_at && html`<button onClick=${() => revoke(token)} aria-label="Revoke ${line(token.label ?? token.name, 64)}">Revoke</button>`}</td></tr>`)}</tbody></table></div>`}</section>`;
}

/** Budgets used today, where the daemon tells them. */
function Peers() {
  const { value, error } = useRows(() => get('peers'), []);
  if (error?.status === 404 || (!value && !error)) return null;
  if (!value) return html`<${Problem} error=${error} what="peers" />`;
  return html`<section class="card wide"><h2>Other agents</h2>${value.peers.length === 0 ? html`<p class="dim">None. <code>codex-bridge peers add NAME</code></p>` : html`<div class="scroll" tabindex="0" role="region" aria-label="Other agents"><table>
    <thead><tr><th>Name</th><th>Tier</th><th>Today</th></tr></thead><tbody>${value.peers.map((/** @type {any} */ peer) => html`<tr key=${`${peer.channel} ${peer.sender ?? peer.name}`}>
      <td><${Line} text=${peer.name ?? peer.sender} length=${64} /></td><td><${Line} text=${peer.tier} length=${20} /></td><td>${budgets(peer)}</td></tr>`)}</tbody></table></div>`}</section>`;
}

/** What of it is used, each as a bar. @param {any} peer */
const budgets = (peer) => (Array.isArray(peer.budgets) ? peer.budgets : []).map((/** @type {any} */ budget) => html`<label class="budget">
  <${Line} text=${budget.name} length=${40} /><meter value=${budget.used} max=${budget.limit ?? Math.max(budget.used, 1)}></meter>
  <span class="dim">${budget.name.includes('bytes') ? bytes(budget.used) : budget.used.toLocaleString()}${budget.limit != null && ` of ${budget.name.includes('bytes') ? bytes(budget.limit) : budget.limit.toLocaleString()}`}</span></label>`);

/** @param {{ session: Session | null }} props */
export function Access({ session }) {
  const { value: tokens, error, reload } = useRows(async () => /** @type {TokenView[]} */ ((await get('tokens')).tokens), []);
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState(/** @type {TokenView | null} */ (null));
  const leave = async () => {
    await signOut();
    location.reload();
  };
  const isSession = (/** @type {TokenView} */ token) => token.kind === 'session';
  const sessions = tokens?.filter(isSession) ?? [];
  const bearers = tokens?.filter((token) => !token.kind || token.kind === 'token') ?? [];
  return html`
    <${Head} title="Access" sub="Who may do what">${tokens && html`<button class="primary" onClick=${() => setMaking(true)}>Make a token</button>`}</${Head}>
    ${session && html`<section class="card"><h2>This page</h2><${Facts} rows=${[['Signed in as', html`<${Line} text=${session.name} />`],
      ['May', session.scopes.map((scope) => html`<${Badge}>${line(scope, 20)}</${Badge}> `)], ['Until', session.expires_at && html`<${When} at=${session.expires_at} />`]]} />
      <div class="actions"><${Act} act=${leave}>Sign out</${Act}></div></section>`}
    ${!tokens && (error ? html`<${Problem} error=${error} what="tokens" again=${reload} />` : html`<${Loading} />`)}
    ${tokens && html`<${Table} title="Sessions of the console" tokens=${sessions} revoke=${setRevoking} own=${session?.name}><p class="dim">None beside this. A phone gets one with <code>codex-bridge console --phone</code>.</p></${Table}>
      <${Table} title="Tokens" tokens=${bearers} revoke=${setRevoking} own=${session?.name}><${Empty} title="No tokens"><p>Programs and other machines need one.</p></${Empty}></${Table}><${Peers} />`}
    ${making && html`<${Make} onClose=${() => setMaking(false)} reload=${reload} />`}
    ${revoking && html`<${Revoke} token=${revoking} reload=${reload} onClose=${() => setRevoking(null)} />`}`;
}
