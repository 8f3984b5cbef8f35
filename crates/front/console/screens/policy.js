// @ts-check
/** The policy simulator: who asks for what, and which rule decides. Nothing is done. */

import { everything, post } from '../lib/api.js';
import { html, useState } from '../lib/html.js';
import { asApiError } from '../lib/live.js';
import { When, counted, line, span } from '../lib/text.js';
import { Act, Badge, Facts, Head, Line, Problem, Text } from '../parts/basics.js';

/** @type {[string, string][]} */
const TIERS = [['owner', 'owner: you'], ['tool', 'tool: holders of tokens'], ['peer', 'peer: other agents and strangers']];
/** @type {[string, string][]} */
const KINDS = [['command', 'a command'], ['file_change', 'a change of files'], ['mcp_tool', 'a tool of an MCP server']];
const RULINGS = /** @type {Record<string, [string, string]>} */ ({
  allow: ['good', 'Allowed: it is done without asking.'], ask: ['waits', 'Asked: somebody decides.'], deny: ['failed', 'Denied: it is declined without asking.'],
});

/** @param {Props.Explained} _ */
function Found({ found }) {
  const [tone, words] = RULINGS[found.ruling] ?? ['waits', found.ruling];
  return html`<section class="card answer-why" aria-live="polite">
    <p class="now-big"><${Badge} tone=${tone}>${line(found.ruling, 20)}<//> ${words}</p>
    <p><${Text} text=${found.why} /></p>
    <${Facts} rows=${[
      ['Rule', found.rule ? html`<strong><${Line} text=${found.rule} /></strong>` : 'none matches'],
      ['Decides', found.who && (found.who === 'sender' ? 'the owner, or whoever sent the message' : 'the owner')],
      ['Sandbox', html`<${Line} text=${found.sandbox} />`], ['Asked at all', html`<${Text} text=${found.asked} />`],
      ['Accept means', html`<${Text} text=${found.accept_means} />`],
        ['Silence is a decline after', found.deadline_secs && span(found.deadline_secs * 1000)]]} />
    ${found.rules?.length > 0 && html`<${Rules} rules=${found.rules} />`}</section>`;
}

/** All rules, in the order in which they count. @param {Props.Rules} _ */
const Rules = ({ rules }) => html`<details><summary>${counted(rules.length, 'rule')}, in order</summary><ol class="rules">${rules.map((rule) => html`<li>
  <${Ruling} word=${rule.then} /> <strong><${Line} text=${rule.name} length=${80} /></strong> <span class="dim">${rule.matches ? 'matches'
    : html`<${Text} text=${rule.why_not ?? 'does not match'} />`}</span></li>`)}</ol></details>`;

/** @param {Props.Ruling} _ */
const Ruling = ({ word }) => (word ? html`<${Badge} tone=${RULINGS[word]?.[0] ?? 'waits'}>${line(word, 20)}<//>` : html`<span class="dim">not known</span>`);

/** The rules of now over what was really asked. */
function LastWeek() {
  const [asked, setAsked] = useState(/** @type {Api.ReplayEntry[] | null} */ (null));
  const [error, setError] = useState(/** @type {Failed | null} */ (null));
  const [all, setAll] = useState(false);
  const look = () => everything('policy/replay', 'requests', { days: 7 }).then(setAsked, (failed) => setError(asApiError(failed)));
  const shown = (asked ?? []).filter((one) => all || one.differs);
  const differ = (asked ?? []).filter((one) => one.differs).length;
  return html`<section class="card wide"><h2>The last week</h2>
    <p class="dim">What the rules of now would do with what Codex really asked.</p>
    ${error?.status === 404 ? html`<p class="remark">This daemon can’t look back.</p>`
      : html`<${Problem} error=${error} what="questions of the last week" again=${look} />`}
    ${!asked && !error && html`<div class="actions"><${Act} act=${look}>Look<//></div>`}
    ${asked && html`<p role="status">${counted(asked.length, 'question')}, ${differ === 0 ? 'all ruled as they would be now' : `${differ} would be ruled otherwise now`}.
      ${asked.length > differ && html` <button class="link" onClick=${() => setAll(!all)}>${all ? 'Only those' : 'Show all'}</button>`}</p>`}
    ${shown.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Questions of the last week"><table>
      <thead><tr><th>Question</th><th>From</th><th>Was</th><th>Would be</th><th>By</th></tr></thead>
        <tbody>${shown.slice(0, 200).map((one) => html`<tr key=${one.request_id}>
        <td><a href="#/requests/${encodeURIComponent(one.request_id)}"><${Line} text=${one.headline} length=${100} /></a> <span class="dim">
          <${When} at=${one.created_at} /></span></td>
        <td><${Line} text=${one.sender} length=${40} /></td><td>
          <${Ruling} word=${one.then} />${one.decision && html` <span class="dim">${line(one.decision, 20)}</span>`}</td>
        <td><${Ruling} word=${one.now} /></td><td title=${line(one.why, 300)}>
          <${Line} text=${one.rule ?? 'no rule'} length=${60} /></td></tr>`)}</tbody></table></div>`}</section>`;
}

export function Screen() {
  const [asked, setAsked] = useState({ tier: 'tool', kind: 'command', command: '', paths: '', server: '', tool: '', cwd: '', escalated: false });
  const [found, setFound] = useState(/** @type {Api.ExplainView | null} */ (null));
  const [error, setError] = useState(/** @type {Failed | null} */ (null));
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => setAsked({ ...asked, [name]: event.target.type === 'checkbox' ? event.target.checked : event.target.value });
  const explain = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const paths = asked.paths.split('\n').map((path) => path.trim()).filter(Boolean);
    const of = { command: { command: asked.command }, file_change: { paths }, mcp_tool: { server: asked.server, ...(asked.tool ? { tool: asked.tool } : {}) } }[asked.kind];
    const body = { tier: asked.tier, kind: asked.kind, ...of, ...(asked.cwd ? { cwd: asked.cwd } : {}), ...(asked.escalated ? { escalated: true } : {}) };
    await post('policy/explain', body).then((answer) => { setFound(answer); setError(null); }, (failed) => { setError(asApiError(failed)); setFound(null); });
  };
  const options = (/** @type {[string, string][]} */ some) => some.map(([value, words]) => html`<option value=${value}>${words}</option>`);
  return html`
    <${Head} title="Rules" sub="What would happen, by which rule. Nothing is done." />
    <form class="card" onSubmit=${explain}>
      <div class="fields">
        <label class="field">Whose turn asks<select value=${asked.tier} onChange=${set('tier')}>${options(TIERS)}</select></label>
        <label class="field">For what<select value=${asked.kind} onChange=${set('kind')}>${options(KINDS)}</select></label>
        <label class="field">Directory<input value=${asked.cwd} placeholder="/home/you/project" autocomplete="off" spellcheck=${false} onInput=${set('cwd')} /></label>
      </div>
      ${asked.kind === 'command' && html`<label class="field">Command<input value=${asked.command} required placeholder="git push origin main" autocomplete="off" spellcheck=${false} onInput=${set('command')} /></label>`}
      ${asked.kind === 'file_change'
        && html`<label class="field">Files, one on each line<textarea rows="3" required value=${asked.paths} placeholder="/srv/work/.git/config" spellcheck=${false} onInput=${set('paths')}></textarea></label>`}
      ${asked.kind === 'mcp_tool' && html`<div class="fields">
        <label class="field">Server<input value=${asked.server} required autocomplete="off" onInput=${set('server')} /></label>
        <label class="field">Tool<input value=${asked.tool} autocomplete="off" onInput=${set('tool')} /></label></div>`}
      <label class="choice"><input type="checkbox" checked=${asked.escalated} onChange=${set('escalated')} />
        <span>Codex says that it wants out of the sandbox</span></label>
      <div class="actions"><button class="primary" type="submit">Explain</button></div>
    </form>
    ${error && html`<${Problem} error=${error} what="policy simulator" />`}
    ${found && html`<${Found} found=${found} />`}<${LastWeek} />`;
}
