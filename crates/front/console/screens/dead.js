// @ts-check
/** What failed, or was cut and waits for a person: retried or given up, one or many. */

import { everything, get, post } from '../lib/api.js';
import { html, useState } from '../lib/html.js';
import { useRows } from '../lib/load.js';
import { notify } from '../lib/notices.js';
import { counted, line, visible } from '../lib/text.js';
import { Ago, When } from '../lib/time.js';
import { Badge, Confirm, Empty, Head, Line, Loading, Problem, Text } from '../parts/basics.js';
import { LongText } from '../parts/long.js';

/** @typedef {import('../../console-types/api').DeadView} DeadView */
/** @typedef {import('../../console-types/api').StoryView} StoryView */

/** Each retried message is a turn of Codex: they are sent one after the other, slower than a token's limit. */
const PER_SECOND = 10;

/** @param {'redrive' | 'drop'} verb @param {string} id */
const act = (verb, id) => post(`messages/${encodeURIComponent(id)}/${verb}`);

/** @param {DeadView} one */
const willDo = (one) => (one.answered ? 'Its answer is there: only what was not sent is sent again. Codex does not run.'
  : one.state === 'parked' ? 'Codex goes on in the same thread; it is told to look first at what was already done.'
    : 'Codex works on its text again, in the same conversation.');

/** What a retry would run: read when somebody wants to see it. @param {{ one: DeadView }} props */
function Would({ one }) {
  const [story, setStory] = useState(/** @type {StoryView | null} */ (null));
  const open = (/** @type {any} */ event) => event.target.open && !story && get(`messages/${encodeURIComponent(one.message_id)}`).then(setStory, () => undefined);
  return html`<details onToggle=${open}><summary>What would run again</summary>
    <p>${willDo(one)}</p>
    ${!story ? html`<${Loading} />` : html`
      <${LongText} text=${visible(story.text)} label="Text of the message" />
      <p class="dim">in <code><${Text} text=${story.workdir} /></code>${story.attempts.at(-1) && html`,
        sandbox <${Line} text=${story.attempts.at(-1)?.sandbox} />${story.attempts.some((attempt) => attempt.touched) && ', after commands or changes that may have had an effect'}`}</p>`}
  </details>`;
}

/** @param {{ one: DeadView, chosen: boolean, choose: (on: boolean) => void, ask: (verb: 'redrive' | 'drop', ids: DeadView[]) => void }} props */
function Dead({ one, chosen, choose, ask }) {
  return html`<article class="card dead" aria-label=${line(one.line, 80)}>
    <header class="meta"><label class="pick"><input type="checkbox" checked=${chosen} aria-label="Choose: ${line(one.line, 80)}"
        onChange=${(/** @type {any} */ event) => choose(event.target.checked)} /></label>
      <${Badge} tone=${one.state === 'parked' ? 'waits' : 'failed'}>${one.state === 'parked' ? 'waits for you' : 'failed'}</${Badge}>
      <span>from <strong><${Line} text=${one.sender} length=${60} /></strong> in <${Line} text=${one.conversation} length=${60} /></span>
      <span class="dim"><${Ago} at=${one.since} />, ${counted(one.attempts, 'attempt')}</span>
      <a class="right" href="#/messages/${encodeURIComponent(one.message_id)}">why</a></header>
    <p class="words"><${Line} text=${one.line} length=${300} /></p>
    <p class="reason"><${Text} text=${one.reason} /></p>
    <${Would} one=${one} />
    <footer class="actions"><button class="primary" onClick=${() => ask('redrive', [one])}>${one.state === 'parked' ? 'Go on' : 'Retry'}</button>
      <button onClick=${() => ask('drop', [one])}>Discard</button>
      ${one.until && html`<span class="dim">kept until <${When} at=${one.until} /></span>`}</footer>
  </article>`;
}

/** @param {{ verb: 'redrive' | 'drop', some: DeadView[], onClose: () => void, reload: () => void }} props */
function Ask({ verb, some, onClose, reload }) {
  const [done, setDone] = useState(0);
  const run = async () => {
    /** @type {string[]} */
    const failed = [];
    for (const [at, one] of some.entries()) {
      await act(verb, one.message_id).catch((error) => failed.push(`${line(one.line, 60)}: ${error.message}`));
      setDone(at + 1);
      if (at + 1 < some.length) await new Promise((resolve) => setTimeout(resolve, 1000 / PER_SECOND));
    }
    reload();
    const words = verb === 'drop' ? 'discarded' : 'sent again';
    if (failed.length > 0) throw new Error(`${counted(failed.length, 'message was', 'messages were')} not ${words}. ${failed[0]}`);
    notify(`${counted(some.length, 'message')} ${words}.`);
  };
  const turns = some.filter((one) => !one.answered).length;
  const [title, yes] = verb === 'drop' ? ['Discard?', 'Discard'] : ['Send again?', 'Send again'];
  return html`<${Confirm} title=${some.length > 1 ? `${title.slice(0, -1)} ${counted(some.length, 'message')}?` : title} yes=${yes}
      tone=${verb === 'drop' ? 'danger' : 'primary'} act=${run} onClose=${onClose}>
    ${some.length === 1 ? html`<p><${Line} text=${some[0]?.line} length=${300} /></p><p>${verb === 'drop' ? 'It is given up; its sender is told where the channel can.' : some[0] && willDo(some[0])}</p>`
      : html`<p>${verb === 'drop' ? 'They are given up.' : `${counted(turns, 'turn')} of Codex, ${some.length - turns} answers sent again; ${PER_SECOND} a second, then as Codex has room.`}</p>
        <ul class="short">${some.slice(0, 8).map((one) => html`<li><${Line} text=${one.line} length=${100} /></li>`)}${some.length > 8 && html`<li class="dim">and ${some.length - 8} more</li>`}</ul>`}
    ${done > 0 && html`<p role="status">${done} of ${some.length}</p>`}
  </${Confirm}>`;
}

export function DeadLetters() {
  const { value: dead, error, reload } = useRows(() => /** @type {Promise<DeadView[]>} */ (everything('dead', 'dead')), [],
    (event) => event.name === 'state');
  const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set()));
  const [asked, setAsked] = useState(/** @type {{ verb: 'redrive' | 'drop', some: DeadView[] } | null} */ (null));
  const choose = (/** @type {string} */ id) => (/** @type {boolean} */ on) => {
    const next = new Set(chosen);
    if (on) next.add(id);
    else next.delete(id);
    setChosen(next);
  };
  const some = (dead ?? []).filter((one) => chosen.has(one.message_id));
  const ask = (/** @type {'redrive' | 'drop'} */ verb, /** @type {DeadView[]} */ which) => setAsked({ verb, some: which });
  return html`
    <${Head} title="Failed" sub="Dead letters, and what was cut after a change">
      ${(dead?.length ?? 0) > 1 && html`<label class="choice"><input type="checkbox" checked=${some.length === dead?.length}
        onChange=${(/** @type {any} */ event) => setChosen(new Set(event.target.checked ? dead?.map((one) => one.message_id) : []))} /><span>All ${dead?.length}</span></label>`}
      ${some.length > 0 && html`<button class="primary" onClick=${() => ask('redrive', some)}>Retry ${some.length}</button>
        <button onClick=${() => ask('drop', some)}>Discard ${some.length}</button>`}</${Head}>
    ${error && html`<${Problem} error=${error} what="failed messages" again=${reload} />`}
    ${!dead && !error && html`<${Loading} />`}
    ${dead?.length === 0 && html`<${Empty} title="Nothing failed"><p>A message that can’t be answered ends here, with its text and the reason.</p></${Empty}>`}
    <div class="cards">${dead?.map((one) => html`<${Dead} key=${one.message_id} one=${one} chosen=${chosen.has(one.message_id)} choose=${choose(one.message_id)} ask=${ask} />`)}</div>
    ${asked && html`<${Ask} ...${asked} reload=${reload} onClose=${() => { setAsked(null); setChosen(new Set()); }} />`}`;
}

