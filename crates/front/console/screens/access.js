// @ts-check
/** Who may do what: tokens, sessions of the console, other agents; made and revoked here. */

import { get, post, remove, signOut } from '../lib/api.js';
import { html, typed, useState } from '../lib/html.js';
import { notify } from '../lib/keys.js';
import { useRows } from '../lib/live.js';
import { Ago, When, bytes, counted, line } from '../lib/text.js';
import { Act, Badge, Confirm, Dialog, Empty, Facts, Head, Line, Loading, Problem } from '../parts/basics.js';

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

/** @param {Props.Make} _ */
function Make({ onClose, reload }) {
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState(/** @type {string[]} */ (['read']));
  const [made, setMade] = useState(/** @type {Api.TokenMade | null} */ (null));
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
      <p><input class="secret" readonly aria-label="The token" value=${made.token} onFocus=${(event) => event.target.select()} /></p>
      <div class="actions"><${Act} tone="primary" done="Copied." act=${() => copy(made.token)}>Copy<//><button onClick=${onClose}>I have it</button></div><//>`;
  }
  const risky = scopes.includes('approve') || scopes.includes('admin');
  return html`<${Dialog} title="Make a token" onClose=${onClose}>
    <label class="field">Name<input value=${name} placeholder="ci" autocomplete="off" maxlength="64" onInput=${typed(setName)} /></label>
    <fieldset><legend>What its holder may do</legend>${SCOPES.map(([scope, what]) => html`<label class="choice" key=${scope}>
      <input type="checkbox" checked=${scopes.includes(scope)} onChange=${(event) => setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))} />
      <span><strong>${scope}</strong><small>${what}</small></span></label>`)}
      <button class="link" onClick=${() => setScopes(OWNER)}>Like the owner</button></fieldset>
    ${risky && html`<p class="remark">Whoever has this token can let commands run with your rights.</p>`}
    <div class="actions"><${Act} tone="primary" disabled=${!name.trim() || scopes.length === 0} act=${make}>Make it<//></div>
  <//>`;
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

/** @param {Props.Table} _ */
function Table({ tokens, title, revoke, own, children }) {
  return html`<section class="card wide"><h2>${title}</h2>${tokens.length === 0 ? children
    : html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table>
    <thead><tr><th>Name</th><th>May</th><th>Made</th><th>Last used</th><th>Ends</th><th><span class="spoken">Acts</span></th></tr></thead>
    <tbody>${tokens.map((token) => html`<tr key=${token.name} class=${token.revoked_at ? 'over' : ''}>
      <td><${Line} text=${token.label ?? token.name} length=${64} />${token.name === own && html` <${Badge} tone="own">this one<//>`}${token.kind === 'login' && html` <${Badge} tone="waits">code not used yet<//>`}</td>
      <td>${token.scopes.map((scope) => html`<${Badge} tone=${['admin', 'approve'].includes(scope) ? 'waits' : ''}>${line(scope, 20)}<//> `)}</td>
      <td><${When} at=${token.created_at} /></td><td>${token.last_used_at ? html`<${Ago} at=${token.last_used_at} />`
        : html`<span class="dim">never</span>`}</td>
      <td>${token.revoked_at ? html`revoked <${When} at=${token.revoked_at} />` : html`<${When} at=${token.expires_at} />`}</td>
      <td>${!token.revoked_at && html`<button onClick=${() => revoke(token)} aria-label="Revoke ${line(token.label ?? token.name, 64)}">Revoke</button>`}</td></tr>`)}</tbody></table></div>`}</section>`;
}

/** What of a day's budget is used. @param {Props.Budget} _ */
const Budget = ({ sender }) => html`${/** @type {const} */ (['turns', 'tokens', 'bytes']).map((name) => {
  const [used, limit] = [sender.used[name], sender.budget?.[name]];
  const shown = (/** @type {number} */ count) => (name === 'bytes' ? bytes(count) : count.toLocaleString());
  return used != null && html`<div class="budget">${limit != null && html`<meter aria-label=${`${name} used`} value=${used} max=${limit}></meter>`}
    <span class="dim">${shown(used)}${limit != null && ` of ${shown(limit)}`} ${name === 'bytes' ? 'stored' : name}</span></div>`;
})}`;

/** Who wrote lately, with which rights, and what of their budgets they used. */
function Senders() {
  const { value, error } = useRows(() => /** @type {Promise<Api.SenderList>} */ (get('senders')), []);
  if (!value) return error && error.status !== 404 && html`<${Problem} error=${error} what="who wrote" />`;
  return html`<section class="card wide"><h2>Who wrote in the last 24 hours</h2>${value.senders.length === 0
    ? html`<p class="dim">Nobody. Other agents get a token with <code>codex-bridge peers add NAME</code>.</p>`
    : html`<div class="scroll" tabindex="0" role="region" aria-label="Who wrote"><table><thead><tr><th>Sender</th><th>Over</th><th>Tier</th>
      <th>Messages</th><th>Newest</th><th>Used</th></tr></thead>
      <tbody>${value.senders.map((sender) => html`<tr key=${`${sender.channel} ${sender.sender}`}><td>
        <${Line} text=${sender.sender} length=${64} /></td><td><${Line} text=${sender.channel} length=${40} /></td>
        <td><${Badge} tone=${sender.tier === 'owner' ? 'own' : 'foreign'}>${line(sender.tier, 20)}<//></td>
          <td class="number">${sender.messages.toLocaleString()}</td><td><${Ago} at=${sender.newest_at} /></td>
        <td><${Budget} sender=${sender} />${sender.waits_until
          && html`<span class="reason">waits until <${When} at=${sender.waits_until} /></span>`}</td></tr>`)}</tbody></table></div>`}
    ${value.left > 0 && html`<p class="dim">and ${value.left.toLocaleString()} more</p>`}</section>`;
}

/** @param {Route} _ */
export function Screen({ session }) {
  const { value: tokens, error, reload } = useRows(async () => /** @type {Api.TokenView[]} */ ((await get('tokens')).tokens), []);
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState(/** @type {Api.TokenView | null} */ (null));
  const leave = async () => {
    await signOut();
    location.reload();
  };
  const isSession = (/** @type {Api.TokenView} */ token) => token.kind === 'session' || token.kind === 'login';
  const sessions = tokens?.filter(isSession) ?? [];
  const bearers = tokens?.filter((token) => !token.kind || token.kind === 'token') ?? [];
  return html`
    <${Head} title="Access" sub="Who may do what">${tokens && html`<button class="primary" onClick=${() => setMaking(true)}>Make a token</button>`}<//>
    ${session && html`<section class="card"><h2>This page</h2><${Facts} rows=${[['Signed in as', html`<${Line} text=${session.name} />`],
      ['May', session.scopes.map((scope) => html`<${Badge}>${line(scope, 20)}<//> `)],
        ['Until', session.expires_at && html`<${When} at=${session.expires_at} />`]]} />
      <div class="actions"><${Act} act=${leave}>Sign out<//></div></section>`}
    ${!tokens && (error ? html`<${Problem} error=${error} what="tokens" again=${reload} />` : html`<${Loading} />`)}
    ${tokens && html`<${Table} title="Sessions of the console" tokens=${sessions} revoke=${setRevoking} own=${session?.name}>
      <p class="dim">None beside this. A phone gets one with <code>codex-bridge console --phone</code>.</p><//>
      <${Table} title="Tokens" tokens=${bearers} revoke=${setRevoking} own=${session?.name}><${Empty} title="No tokens">
        <p>Programs and other machines need one.</p><//><//><${Senders} />`}
    ${making && html`<${Make} onClose=${() => setMaking(false)} reload=${reload} />`}
    ${revoking && html`<${Revoke} token=${revoking} reload=${reload} onClose=${() => setRevoking(null)} />`}`;
}
