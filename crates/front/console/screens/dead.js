// @ts-check
/** What failed, or was cut and waits for a person: retried or given up, one or many. */

import { everything, get, post } from '../lib/api.js';
import { html, ticked, useEffect, useState } from '../lib/html.js';
import { notify } from '../lib/keys.js';
import { useRows } from '../lib/live.js';
import { Ago, When, counted, line, visible } from '../lib/text.js';
import { Badge, Confirm, Empty, Head, Line, Loading, LongText, Problem, Text } from '../parts/basics.js';

/** Ids in one call. */
const CALL_MAX = 100;

/** @param {Verb} verb @param {Api.DeadView[]} some @param {boolean} dry only says what would happen @returns {Promise<Api.DeadActs>} */
async function act(verb, some, dry) {
  /** @type {Api.DeadActs} */
  const all = { done: [], refused: [], left: 0, dry_run: dry };
  for (let from = 0; from < some.length; from += CALL_MAX) {
    const ids = some.slice(from, from + CALL_MAX).map((one) => one.message_id);
    const acts = await post(`dead/${verb}`, { ids, dry_run: dry });
    all.done.push(...acts.done);
    all.refused.push(...acts.refused);
  }
  return all;
}

/** @param {Api.DeadView} one */
const willDo = (one) => (one.answered ? 'Its answer is there: only what was not sent is sent again. Codex does not run.'
  : one.state === 'parked' ? 'Codex goes on in the same thread; it is told to look first at what was already done.'
    : 'Codex works on its text again, in the same conversation.');

/** What a retry would run: read when somebody wants to see it. @param {Props.Would} _ */
function Would({ one }) {
  const [story, setStory] = useState(/** @type {Api.StoryView | null} */ (null));
  const open = (/** @type {any} */ event) => event.target.open && !story && get(`messages/${encodeURIComponent(one.message_id)}`).then(setStory, () => undefined);
  return html`<details onToggle=${open}><summary>What would run again</summary>
    <p>${willDo(one)}</p>
    ${!story ? html`<${Loading} />` : html`
      <${LongText} text=${visible(story.text)} label="Text of the message" />
      <p class="dim">in <code><${Text} text=${story.workdir} /></code>${story.attempts.at(-1) && html`,
        sandbox <${Line} text=${story.attempts.at(-1)?.sandbox} />${story.attempts.some((attempt) => attempt.touched) && ', after commands or changes that may have had an effect'}`}</p>`}
  </details>`;
}

/** @param {Props.Dead} _ */
function Dead({ one, chosen, choose, ask }) {
  return html`<article class="card dead" aria-label=${line(one.line, 80)}>
    <header class="meta"><label class="pick"><input type="checkbox" checked=${chosen} aria-label="Choose: ${line(one.line, 80)}"
        onChange=${ticked(choose)} /></label>
      <${Badge} tone=${one.state === 'parked' ? 'waits' : 'failed'}>${one.state === 'parked' ? 'waits for you' : 'failed'}<//>
      <span>from <strong><${Line} text=${one.sender} length=${60} /></strong> in <${Line} text=${one.conversation} length=${60} /></span>
      <span class="dim"><${Ago} at=${one.since} />, ${counted(one.attempts, 'attempt')}</span>
      <a class="right" href="#/messages/${encodeURIComponent(one.message_id)}">why</a></header>
    <p class="words"><${Line} text=${one.line} length=${300} /></p>
    <p class="reason"><${Text} text=${one.reason} /></p>
    <${Would} one=${one} />
    <footer class="actions"><button class="primary" onClick=${() => ask('retry', [one])}>${one.state === 'parked' ? 'Go on' : 'Retry'}</button>
      <button onClick=${() => ask('discard', [one])}>Discard</button>
      ${one.until && html`<span class="dim">kept until <${When} at=${one.until} /></span>`}</footer>
  </article>`;
}

/** @param {Props.Ask} _ */
function Ask({ verb, some, onClose, reload }) {
  const [would, setWould] = useState(/** @type {Api.DeadActs | null} */ (null));
  useEffect(() => { act(verb, some, true).then(setWould, () => undefined); }, []);
  const drop = verb === 'discard';
  const run = async () => {
    const { done, refused } = await act(verb, some, false).finally(reload);
    const words = drop ? 'given up' : 'sent again';
    if (refused.length > 0) throw new Error(`${counted(refused.length, 'message was', 'messages were')} not ${words}: ${refused[0]?.reason}`);
    notify(`${counted(done.length, 'message')} ${words}.`);
  };
  const turns = some.filter((one) => !one.answered).length;
  const one = some.length === 1 ? some[0] : null;
  const title = `${drop ? 'Discard' : one?.state === 'parked' ? 'Go on with' : 'Retry'} ${one ? 'this message' : counted(some.length, 'message')}?`;
  return html`<${Confirm} title=${title} yes=${drop ? 'Discard' : 'Send again'} tone=${drop ? 'danger' : 'primary'} act=${run} onClose=${onClose}>
    ${one ? html`<p class="words"><${Line} text=${one.line} length=${300} /></p><p>${drop ? 'It is given up. That can’t be taken back.' : willDo(one)}</p>`
      : html`<p>${drop ? 'They are given up. That can’t be taken back.' : `${counted(turns, 'turn')} of Codex${some.length > turns ? ` and ${counted(some.length - turns, 'answer')}` : ''}, one a second.`}</p>
        <ul class="short">${some.slice(0, 8).map((some) => html`<li><${Line} text=${some.line} length=${100} /></li>`)}${some.length > 8
          && html`<li class="dim">and ${some.length - 8} more</li>`}</ul>`}
    ${would && would.refused.length > 0 && html`<div class="remark"><p>Not possible now for ${would.refused.length}:</p>
      <ul class="short">${would.refused.slice(0, 4).map((refused) => html`<li><${Text} text=${refused.reason} /></li>`)}</ul></div>`}
  <//>`;
}

export function Screen() {
  const { value: dead, error, reload } = useRows(() => /** @type {Promise<Api.DeadView[]>} */ (everything('dead', 'dead')), [],
    (event) => event.name === 'state');
  const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set()));
  const [asked, setAsked] = useState(/** @type {{ verb: Verb, some: Api.DeadView[] } | null} */ (null));
  const choose = (/** @type {string} */ id) => (/** @type {boolean} */ on) => {
    const next = new Set(chosen);
    if (on) next.add(id);
    else next.delete(id);
    setChosen(next);
  };
  const some = (dead ?? []).filter((one) => chosen.has(one.message_id));
  const ask = (/** @type {Verb} */ verb, /** @type {Api.DeadView[]} */ which) => setAsked({ verb, some: which });
  return html`
    <${Head} title="Failed" sub="Dead letters, and what was cut after a change">
      ${(dead?.length ?? 0) > 1 && html`<label class="choice"><input type="checkbox" checked=${some.length === dead?.length}
        onChange=${(event) => setChosen(new Set(event.target.checked ? dead?.map((one) => one.message_id) : []))} /><span>All ${dead?.length}</span></label>`}
      ${some.length > 0 && html`<button class="primary" onClick=${() => ask('retry', some)}>Retry ${some.length}</button>
        <button onClick=${() => ask('discard', some)}>Discard ${some.length}</button>`}<//>
    ${error && html`<${Problem} error=${error} what="failed messages" again=${reload} />`}
    ${!dead && !error && html`<${Loading} />`}
    ${dead?.length === 0 && html`<${Empty} title="Nothing failed"><p>A message that can’t be answered ends here, with its text and the reason.</p><//>`}
    <div class="cards">${dead?.map((one) => html`<${Dead} key=${one.message_id} one=${one} chosen=${chosen.has(one.message_id)} choose=${choose(one.message_id)} ask=${ask} />`)}</div>
    ${asked && html`<${Ask} ...${asked} reload=${reload} onClose=${() => { setAsked(null); setChosen(new Set()); }} />`}`;
}

