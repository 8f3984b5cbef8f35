/** What Codex asks, what failed, and why anything is where it is. */

import {
  Act, Ago, Badge, complain, Confirm, Countdown, counted, Dialog, Empty, everything, exactly, Facts, find, full, get, Head, html, isOver, Later, line, Loading,
  LongText, mark, notify, post, Problem, recall, remember, remove, short, SOURCE, span, Steps, useEffect, useKeys, useLayoutEffect, useNow, useRef, useRows,
  useState, useSwipe, visible, when,
} from '../app.js';
// What a question wants filled in comes from Codex, and anything may be missing.
const list = (value) => (Array.isArray(value) ? value : []);
const words = (value) => (typeof value === 'string' ? value : value == null ? '' : JSON.stringify(value));
const option = (label, value, help = '') => ({ label: words(label), help: words(help), value });

/** @param {{ kind: string, payload?: any }} request */
function formFields({ kind, payload }) {
  if (kind === 'user_input') return list(payload?.questions).map(ofQuestion);
  if (kind !== 'elicitation') return [];
  const { properties = {}, required } = payload?.requestedSchema ?? {};
  return Object.entries(properties).map(([id, property]) => ofProperty(id, property ?? {}, list(required).includes(id)));
}

function ofQuestion(question) {
  const options = list(question?.options).map((one) => option(one?.label, one?.label, one?.description));
  const free = options.length === 0 || question?.isOther === true;
  return { id: words(question?.id), title: words(question?.question), options, typed: free ? 'text' : '', required: true, secret: question?.isSecret === true };
}

function ofProperty(id, schema, required) {
  const options = [...list(schema.enum).map((value, at) => option(schema.enumNames?.[at] ?? value, value)),
    ...list(schema.oneOf).filter((one) => one?.const != null).map((one) => option(one.title ?? one.const, one.const))];
  const type = ['integer', 'number', 'boolean'].includes(schema.type) ? schema.type : 'text';
  const title = [schema.title, schema.description].filter(Boolean).map(words).join(': ') || id;
  return { id, title, options, typed: options.length > 0 ? '' : type, required, preset: schema.default };
}

/** What was filled in, as what is wanted; `NaN` when it can't be read. */
function valueOf({ id, typed, preset }, filled) {
  const value = filled[id] ?? preset ?? '';
  if (typeof value !== 'string' || !value || !['integer', 'number'].includes(typed)) return value;
  const number = Number(value);
  return Number.isFinite(number) && (typed === 'number' || Number.isSafeInteger(number)) ? number : NaN;
}

/** The answers, or `null` while a required one is missing or unreadable. @returns {Record<string, unknown> | null} */
function answersOf(fields, filled) {
  const answers = fields.map((field) => ({ ...field, value: valueOf(field, filled) }));
  if (answers.some(({ value, required }) => (value === '' ? required : Number.isNaN(value)))) return null;
  return Object.fromEntries(answers.filter(({ value }) => value !== '').map(({ id, value }) => [id, value]));
}

const Form = ({ fields, filled, onFill, name }) => html`<div class="form">${fields.map((field) => {
  const value = filled[field.id] ?? field.preset;
  return html`<fieldset key=${field.id}><legend>${full(field.title)}${!field.required && html` <span class="dim">optional</span>`}</legend>
    ${field.options.map((option, at) => html`<label class="choice">
      <input type="radio" name=${`${name} ${field.id}`} checked=${value === option.value} onChange=${() => onFill(field.id, option.value)} />
      <span>${full(option.label)}${option.help && html`<small>${full(option.help)}</small>`}</span>
      <span class="spoken">choice ${at + 1}</span></label>`)}
    ${field.typed && html`<${Input} field=${field} value=${value} fill=${(next) => onFill(field.id, next)} />`}</fieldset>`;
})}</div>`;

function Input({ field, value, fill }) {
  if (field.typed === 'boolean') {
    return html`<label class="choice"><input type="checkbox" checked=${value === true} onChange=${(event) => fill(event.target.checked)} /><span>Yes</span></label>`;
  }
  const chosen = field.options.some((option) => option.value === value);
  return html`<input type=${field.secret ? 'password' : 'text'} inputmode=${field.typed === 'text' ? 'text' : 'decimal'} autocomplete="off"
    aria-label=${visible(field.title)} placeholder=${field.options.length > 0 ? 'Another answer' : ''} value=${chosen ? '' : String(value ?? '')}
    onInput=${(event) => fill(event.target.value)} />`;
}

const MEANING = {
  command: 'Accept: it runs, once. For the session: it is not asked about again.',
  file_change: 'Accept: exactly this change is written, once.',
  permissions: 'Accept: the rest of this turn has these permissions. For the session: the rest of the thread.',
  mcp_tool: 'Accept: it runs, once, outside of the sandbox. For the session: it is not asked about again.',
  elicitation: 'Accept: what you fill in goes to that MCP server.',
  user_input: 'Your answer goes to Codex as it is.',
};
const FOR_SESSION = ['command', 'file_change', 'permissions', 'mcp_tool'];
const DECIDED = {
  accept: 'accepted', acceptForSession: 'accepted for the session', decline: 'declined', cancel: 'declined, and the turn was cancelled',
  withdrawn: 'not asked any more', granted: 'decided; Codex gets it when it asks again',
};
const AGAIN = {
  accept: ['Accept somebody else’s work?', 'Accept', 'It runs with your rights, possibly outside of the sandbox.'],
  acceptForSession: ['Accept for the session?', 'Accept for the session', 'It is done, and the same is not asked again while this Codex lives.'],
  cancel: ['Cancel the turn?', 'Cancel the turn', 'It is not done, and the turn ends.'],
};

export const isUndecided = (request) => ['open', 'orphaned'].includes(request.state);

/** What was in sight to its end on this page, by request and digest. @type {Set<string>} */
const seenToTheEnd = new Set();

/** @param {Props.Settled} _ */
export const Settled = ({ request }) => html`<p class="dim" role="status"><strong>${line(DECIDED[request.state] ?? request.state, 60)}</strong>
  ${request.by && html` by ${short(request.by)}`}${request.via && html` (${short(request.via)})`}
  ${request.why && html`: ${short(request.why)}`} ${' '}${when(request.decided_at)}</p>`;

/** @param {Props.Question} _ */
export function Question({ request, session, current, alone, onDecided, handle }) {
  const id = request.request_id;
  const shownAs = `${id} ${request.digest}`;
  const [seen, setSeen] = useState(seenToTheEnd.has(shownAs));
  const [filled, setFilled] = useState({});
  const [asking, setAsking] = useState('');
  const card = useRef(null);

  const fields = formFields(request);
  const answers = fields.length > 0 ? answersOf(fields, filled) : undefined;
  const open = isUndecided(request);
  const mayAccept = !session || session.scopes.includes('approve');
  const why = !mayAccept ? 'This session may not accept.' : !seen ? 'Enabled when the end of it was in sight.' : answers === null ? 'Fill in the answers first.' : '';
  const ready = open && !why;

  const settle = async (decision) => {
    const answer = await post(`requests/${id}/decision`, {
      decision, digest: request.digest ?? undefined, answers: decision.startsWith('accept') ? answers : undefined,
    }).finally(onDecided);
    notify(`${request.code}: ${DECIDED[decision]}${answer.outcome === 'granted' ? '; Codex gets it when it asks again' : ''}`);
  };
  const accept = () => {
    if (!ready) return notify(why, 'failed');
    // Somebody else's work with your rights: asked again.
    if (request.requester !== 'you') setAsking('accept');
    else settle('accept').catch(complain);
  };
  const decline = () => void (open && settle('decline').catch(complain));
  useLayoutEffect(() => handle?.({ accept, decline }));
  useEffect(() => { if (current) card.current.scrollIntoView({ block: 'nearest' }); }, [current]);
  const swipe = useSwipe({ onRight: ready && accept, onLeft: open && decline });
  const key = (name) => current && html` <kbd aria-hidden="true">${name}</kbd>`;

  return html`<article ref=${card} class="question ${current ? 'current' : ''} ${open ? '' : 'over'}" tabindex="-1" aria-labelledby="q-${id}" data-request=${id} ...${swipe}>
    <header><h2 id="q-${id}">${short(request.headline, 240)}</h2>
      <p class="meta"><${Badge} tone=${request.requester === 'you' ? 'own' : 'foreign'}>for ${short(request.requester || request.sender || 'somebody whom the daemon does not name')}<//>
        <a href="#/messages/${request.message_id}">why</a><span>in ${short(request.conversation, 60)}</span><code>${line(request.code, 20)}</code>
        ${open && html`<span class="deadline"><${Countdown} at=${request.deadline} />, then declined</span>`}</p></header>
    ${(request.shown || alone) && html`<${LongText} text=${visible(request.shown ?? request.headline)} diff=${request.kind === 'file_change'} label="All that is decided about"
      onEnd=${!seen && (() => { seenToTheEnd.add(shownAs); setSeen(true); })} />`}
    ${request.state === 'orphaned' && html`<p class="remark">Codex died while it asked. What you decide counts once, if it asks for exactly the same again.</p>`}
    ${open && fields.length > 0 && html`<${Form} fields=${fields} filled=${filled} name=${id} onFill=${(field, value) => setFilled({ ...filled, [field]: value })} />`}
    ${open ? html`<footer class="actions">
      <button class="primary" disabled=${!ready} title=${why} onClick=${accept} aria-describedby="q-${id}">Accept${key('a')}</button>
      <${Act} tone="danger" act=${() => settle('decline')} about="q-${id}">Decline${key('d')}<//>
      <details class="more"><summary>More</summary><div class="actions">
        ${FOR_SESSION.includes(request.kind) && html`<button disabled=${!ready} onClick=${() => setAsking('acceptForSession')}>Accept for the session</button>`}
        <button onClick=${() => setAsking('cancel')}>Decline and cancel the turn</button></div></details>
      <p class="dim meaning">${why || MEANING[request.kind]}</p></footer>` : html`<${Settled} request=${request} />`}
    ${asking && html`<${Confirm} title=${AGAIN[asking][0]} yes=${AGAIN[asking][1]} act=${() => settle(asking)} onClose=${() => setAsking('')} tone=${asking === 'cancel' ? 'danger' : 'primary'}>
      <p>${short(request.headline, 400)}</p><p>For <strong>${short(request.requester)}</strong>. ${AGAIN[asking][2]}</p><//>`}
  </article>`;
}

const SETTLED_MS = 15_000;
const SETTLED_MAX = 50;
const URGENT_MS = 60_000;

/** @param {Api.RequestEntry[] | null} open */
function useSettling(open) {
  const known = useRef([]);
  const [settled, setSettled] = useState([]);
  const ids = new Set(open?.map((request) => request.request_id));
  useEffect(() => {
    if (!open) return;
    const gone = known.current.filter((id) => !ids.has(id));
    known.current = [...ids];
    for (const id of gone.slice(0, SETTLED_MAX)) {
      get(`requests/${id}`).then((request) => {
        setSettled((old) => [...old, request]);
        setTimeout(() => setSettled((old) => old.filter((one) => one !== request)), SETTLED_MS);
      }, () => undefined);
    }
  }, [open]);
  return [...(open ?? []), ...settled.filter((request) => !ids.has(request.request_id))]
    .sort((a, b) => a.deadline.localeCompare(b.deadline) || a.request_id.localeCompare(b.request_id));
}

/** @param {Api.RequestEntry[]} requests */
function useWarnings(requests) {
  const warned = useRef(new Set());
  const now = useNow();
  useEffect(() => {
    const late = requests.filter((request) => {
      const left = Date.parse(request.deadline) - now;
      return isUndecided(request) && left < URGENT_MS && left > 0 && !warned.current.has(request.request_id);
    });
    late.forEach((request) => warned.current.add(request.request_id));
    if (late.length > 0) notify(`Less than a minute left${late.length > 1 ? ` for ${late.length} questions.` : `: ${line(late[0].headline, 100)}`}`, 'urgent');
  }, [now, requests]);
}

const deciding = (acts) => [
  { key: 'a', what: 'accept, once its end was in sight', run: () => acts()?.accept() },
  { key: 'd', what: 'decline', run: () => acts()?.decline() },
];

function Requests({ session }) {
  const { value: open, error, reload } = useRows(() => everything('requests', 'requests'), [],
    ({ name, data }) => name === 'request' || (name === 'state' && ['done', 'dead', 'cancelled', 'answered', 'parked'].includes(data.state)));
  const requests = useSettling(open);
  const [at, setAt] = useState('');
  const acts = useRef({});
  useWarnings(requests);

  const undecided = requests.filter(isUndecided);
  const current = undecided.find((request) => request.request_id === at) ?? undecided[0];
  const move = (by) => {
    const next = undecided[undecided.findIndex((request) => request === current) + by];
    if (!next) return;
    setAt(next.request_id);
    find(`[data-request="${CSS.escape(next.request_id)}"]`)?.focus({ preventScroll: true });
  };
  useKeys('Inbox', [
    { key: 'j', what: 'next question', run: () => move(1) }, { key: 'k', what: 'question before', run: () => move(-1) },
    ...deciding(() => acts.current[current?.request_id]),
  ]);

  if (!open) return html`<${Loading} error=${error} what="questions" again=${reload} />`;
  return html`
    <${Head} title="Inbox" sub=${undecided.length === 0 ? 'What Codex asks' : `Codex asks ${counted(undecided.length, 'question')}. Nobody answers: declined.`}><${Notify} /><//>
    <${Problem} error=${error} what="questions" again=${reload} />
    ${requests.length === 0 && html`<${Empty} title="Nothing waits for you">
      <p>When Codex wants to leave its sandbox, change what it may not, or ask you something, it is here.</p>
      <p><a href="#/tasks">Start a task</a> or look at the <a href="#/conversations">conversations</a>.</p><//>`}
    <div class="questions">${requests.map((request) => html`<${Question} key=${request.request_id} request=${request} session=${session}
      current=${request === current} onDecided=${reload} handle=${(one) => { acts.current[request.request_id] = one; }} />`)}</div>`;
}

function OneRequest({ id, session }) {
  const { value, error, reload } = useRows(() => get(`requests/${id}`), [id], ({ name, data }) => name === 'request' && data.request_id === id);
  const acts = useRef(undefined);
  useKeys('Question', deciding(() => acts.current));
  if (!value) return html`<${Loading} error=${error} what="this question" again=${reload} />`;
  return html`<${Head} title="A question" sub=${html`<a href="#/requests">All questions</a>`} />
    <div class="questions"><${Question} request=${value} session=${session} current alone onDecided=${reload} handle=${(one) => { acts.current = one; }} /></div>`;
}

export const Inbox = ({ id, session }) => (id ? html`<${OneRequest} id=${id} session=${session} />` : html`<${Requests} session=${session} />`);

// Whether this browser is told while nobody looks at the page: Web Push, shown by `sw.js`.

// Trusted Types refuse every address of a worker but what this policy gives.
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy('sw', { createScriptURL: () => './sw.js' });

const registered = () => navigator.serviceWorker.register(policy?.createScriptURL('') ?? './sw.js');

function obstacle() {
  if (!isSecureContext) return 'Browsers notify only for pages on https or localhost: see “On the phone” in the guide.';
  if (!('PushManager' in globalThis)) return 'This browser has no notifications for pages. On an iPhone, add the page to the home screen first.';
  if (Notification.permission === 'denied') return 'Notifications of this page are blocked: allow them in the settings of the browser.';
  return '';
}

async function subscribe(key, headline) {
  if (await Notification.requestPermission() !== 'granted') throw new Error('The browser did not allow it.');
  await registered();
  const { pushManager } = await navigator.serviceWorker.ready;
  const { endpoint, keys } = (await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key })).toJSON();
  const { id } = /** @type {any} */ (await post('push', { endpoint, ...keys, about: ['question', 'failure'], detail: headline ? 'headline' : 'hint' }));
  await remember('push', id);
}

async function unsubscribe(id) {
  await remove(`push/${id}`);
  await remember('push', '');
  await (await (await registered()).pushManager.getSubscription())?.unsubscribe();
}

function Choose({ known, mine, onClose }) {
  const [headline, setHeadline] = useState(false);
  const blocked = obstacle();
  const then = (act) => () => act().then(onClose);
  return html`<${Dialog} title="Notify this browser" onClose=${onClose}>
    <p>When Codex asks something, or a message failed; also while the page is closed.</p>
    ${(blocked || mine?.error) && html`<p class="remark">${blocked || full(`The last one was not taken: ${mine.error}`)}</p>`}
    ${mine ? html`<div class="actions"><${Act} tone="danger" act=${then(() => unsubscribe(mine.id))}>Turn off<//></div>` : !blocked && html`
      <label class="choice"><input type="checkbox" onChange=${({ target }) => setHeadline(target.checked)} />
        <span>Send what it is about<small>Without, the browser reads the question here; its push service carries no word of it.</small></span></label>
      <div class="actions"><${Act} tone="primary" act=${then(() => subscribe(known.key, headline))}>Turn on<//></div>`}<//>`;
}

function Notify() {
  const [known, setKnown] = useState(null);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    Promise.all([get('push'), recall('push')]).then(([found, id]) => setKnown({ .../** @type {any} */ (found), id }), () => undefined);
    if (navigator.serviceWorker) navigator.serviceWorker.onmessage = ({ data }) => { location.hash = data.path; };
  }, [open]);
  const mine = known?.subscriptions.find((one) => one.id === known.id);
  return known && html`<button aria-pressed=${!!mine} class="chip" onClick=${() => setOpen(true)}>Notify this browser</button>
    ${open && html`<${Choose} known=${known} mine=${mine} onClose=${() => setOpen(false)} />`}`;
}

// What failed, or was cut and waits for a person: retried or given up, one or many.

const CALL_MAX = 100;

/** `dry_run` only says what would happen. @param {Verb} verb @param {Api.DeadView[]} some */
async function act(verb, some, dry_run) {
  const answers = [];
  for (let from = 0; from < some.length; from += CALL_MAX) {
    answers.push(await post(`dead/${verb}`, { ids: some.slice(from, from + CALL_MAX).map((one) => one.message_id), dry_run }));
  }
  return { done: answers.flatMap(({ done }) => done), refused: answers.flatMap(({ refused }) => refused) };
}

/** @param {Api.DeadView} one */
const willDo = (one) => (one.answered ? 'Its answer is there: only what was not sent is sent again. Codex does not run.'
  : one.state === 'parked' ? 'Codex goes on in the same thread; it is told to look first at what was already done.'
    : 'Codex works on its text again, in the same conversation.');
const GIVEN_UP = 'given up. That can’t be taken back.';

/** @param {Api.DeadView} one @returns {(story: any) => Child} */
const would = (one) => (story) => html`<p>${willDo(one)}</p><${LongText} text=${visible(story.text)} label="Text of the message" />
  <p class="dim">in <code>${full(story.workdir)}</code>${story.attempts.length > 0 && html`, sandbox ${short(story.attempts.at(-1).sandbox)}`}
    ${story.attempts.some((attempt) => attempt.touched) && ', after commands or changes that may have had an effect'}</p>`;

/** @param {Props.Dead} _ */
const Dead = ({ one, chosen, choose, ask }) => html`<article class="card dead" aria-label=${line(one.line, 80)}>
  <header class="meta"><label class="pick"><input type="checkbox" checked=${chosen} aria-label="Choose: ${line(one.line, 80)}" onChange=${({ target }) => choose(target.checked)} /></label>
    ${one.state === 'parked' ? html`<${Badge} tone="waits">waits for you<//>` : html`<${Badge} tone="failed">failed<//>`}
    <span>from <strong>${short(one.sender, 60)}</strong> in ${short(one.conversation, 60)}</span>
    <span><${Ago} at=${one.since} />, ${counted(one.attempts, 'attempt')}</span>
    <a class="right" href="#/messages/${one.message_id}">why</a></header>
  <p class="words">${short(one.line, 300)}</p>
  <p class="reason">${full(one.reason)}</p>
  <${Later} summary="What would run again" read=${() => get(`messages/${one.message_id}`)} draw=${would(one)} />
  <footer class="actions"><button class="primary" onClick=${() => ask('retry')}>${one.state === 'parked' ? 'Go on' : 'Retry'}</button>
    <button onClick=${() => ask('discard')}>Discard</button>
    ${one.until && html`<span class="dim">kept until ${when(one.until)}</span>`}</footer></article>`;

/** @param {Props.Ask} _ */
function Ask({ verb, some, onClose, reload }) {
  const [refused, setRefused] = useState([]);
  useEffect(() => { act(verb, some, true).then((would) => setRefused(would.refused), () => undefined); }, []);
  const drop = verb === 'discard';
  const run = async () => {
    const did = await act(verb, some, false).finally(reload);
    const words = drop ? 'given up' : 'sent again';
    if (did.refused[0]) throw new Error(`${counted(did.refused.length, 'message was', 'messages were')} not ${words}: ${did.refused[0].reason}`);
    notify(`${counted(did.done.length, 'message')} ${words}.`);
  };
  const turns = some.filter((one) => !one.answered).length;
  const one = some.length === 1 ? some[0] : null;
  const title = `${drop ? 'Discard' : one?.state === 'parked' ? 'Go on with' : 'Retry'} ${one ? 'this message' : counted(some.length, 'message')}?`;
  return html`<${Confirm} title=${title} yes=${drop ? 'Discard' : 'Send again'} tone=${drop ? 'danger' : 'primary'} act=${run} onClose=${onClose}>
    ${one ? html`<p class="words">${short(one.line, 300)}</p><p>${drop ? `It is ${GIVEN_UP}` : willDo(one)}</p>`
      : html`<p>${drop ? `They are ${GIVEN_UP}` : `${counted(turns, 'turn')} of Codex${some.length > turns ? ` and ${counted(some.length - turns, 'answer')}` : ''}, one a second.`}</p>
        <ul class="short">${some.slice(0, 8).map((other) => html`<li>${short(other.line, 100)}</li>`)}
          ${some.length > 8 && html`<li class="dim">and ${some.length - 8} more</li>`}</ul>`}
    ${refused.length > 0 && html`<div class="remark"><p>Not possible now for ${refused.length}:</p>
      <ul class="short">${refused.slice(0, 4).map(({ reason }) => html`<li>${full(reason)}</li>`)}</ul></div>`}<//>`;
}

export function Failed() {
  const { value: dead, error, reload } = useRows(() => everything('dead', 'dead'), [], ({ name }) => name === 'state');
  const [chosen, setChosen] = useState([]);
  const [asked, setAsked] = useState(null);
  if (!dead) return html`<${Loading} error=${error} what="failed messages" again=${reload} />`;
  const some = dead.filter((one) => chosen.includes(one.message_id));
  const choose = (id) => (on) => setChosen(on ? [...chosen, id] : chosen.filter((one) => one !== id));
  const close = () => {
    setAsked(null);
    setChosen([]);
  };
  return html`
    <${Head} title="Failed" sub="Dead letters, and what was cut after a change">
      ${dead.length > 1 && html`<label class="choice"><input type="checkbox" checked=${some.length === dead.length}
        onChange=${({ target }) => setChosen(target.checked ? dead.map((one) => one.message_id) : [])} /><span>All ${dead.length}</span></label>`}
      ${some.length > 0 && html`<button class="primary" onClick=${() => setAsked({ verb: 'retry', some })}>Retry ${some.length}</button>
        <button onClick=${() => setAsked({ verb: 'discard', some })}>Discard ${some.length}</button>`}<//>
    <${Problem} error=${error} what="failed messages" again=${reload} />
    ${dead.length === 0 && html`<${Empty} title="Nothing failed"><p>A message that can’t be answered ends here, with its text and the reason.</p><//>`}
    <div class="cards">${dead.map((one) => html`<${Dead} key=${one.message_id} one=${one} chosen=${chosen.includes(one.message_id)} choose=${choose(one.message_id)}
      ask=${(verb) => setAsked({ verb, some: [one] })} />`)}</div>
    ${asked && html`<${Ask} ...${asked} reload=${reload} onClose=${close} />`}`;
}

// One message as a branching timeline: where it is, how it came there, and what happens next.

/** The trunk of a life, and where it can leave it (`docs/ARCHITECTURE.md`, the life of a message). */
const TRUNK = ['received', 'claimed', 'starting', 'running', 'answered', 'sending', 'done'];
const SIDE = {
  steered: 'joined another turn', unclear: 'its end was not seen: looked up', parked: 'cut after a change: waits for you', dead: 'given up', cancelled: 'stopped',
};

/** @param {Props.States} _ */
function States({ story: { state, replies, answer, attempts } }) {
  const on = TRUNK.indexOf(state);
  const at = on >= 0 ? on : TRUNK.indexOf(replies.length > 0 || answer ? 'answered' : attempts.length > 0 ? 'running' : 'received');
  return html`<ol class="states" aria-label="States of a message">${TRUNK.map((name, index) => html`
    <li key=${name} class=${name === state ? 'here' : index < at || (index === at && on < 0) ? 'passed' : ''} aria-current=${name === state ? 'step' : undefined}><span>${name}</span>
      ${SIDE[state] && index === at && html`<span class="branch ${state}" aria-current="step">${state}<small>${SIDE[state]}</small></span>`}</li>`)}</ol>`;
}

/** @param {Props.Attempt} _ */
function Attempt({ attempt, story }) {
  const { message_id, channel, conversation } = story;
  const mine = (one) => one.attempt === attempt.attempt;
  const took = attempt.ended_at ? `${span(Date.parse(attempt.ended_at) - Date.parse(attempt.started_at))}, ` : '';
  const code = (text) => text && html`<code>${line(text, 80)}</code>`;
  return html`<details class="attempt ${attempt.state}" open=${story.attempts.length < 4 || attempt === story.attempts.at(-1)}>
    <summary><strong>Attempt ${attempt.attempt}</strong> <${Badge} tone=${attempt.state === 'lost' ? 'failed' : ''}>${line(attempt.state, 20)}<//>
      <span class="dim">${took}${(attempt.input_tokens + attempt.output_tokens).toLocaleString()} tokens, ${short(attempt.sandbox, 30)}${attempt.touched && ', may have changed something'}</span></summary>
    ${attempt.failures.map((text) => html`<p class="reason">${full(text)}</p>`)}
    <${Steps} items=${story.events.filter(mine)} />
    ${story.requests.filter((request) => mine(request) && !isUndecided(request)).map((request) => html`<div class="said" key=${request.request_id}>
      <a href="#/requests/${request.request_id}">${short(request.headline, 200)}</a><${Settled} request=${{ ...request, message_id, channel, conversation }} /></div>`)}
    <details><summary>For programs</summary><${Facts} rows=${[['Client id', code(attempt.client_id)], ['Thread', code(attempt.thread_id)],
      ['Turn', code(attempt.turn_id)], ['Life of Codex', code(attempt.incarnation)]]} /></details></details>`;
}

/** @param {Api.StoryView} story */
function moments(story) {
  const known = new Set(story.attempts.map((attempt) => attempt.attempt));
  const all = [
    { at: story.received_at, tone: 'begin', draw: html`<strong>Came</strong> from ${short(story.sender, 60)} over ${short(story.channel, 60)}` },
    ...story.attempts.map((attempt) => ({ at: attempt.started_at, tone: attempt.state === 'lost' || attempt.failures.length > 0 ? 'failed' : 'turn', draw: html`<${Attempt} attempt=${attempt} story=${story} />` })),
    ...story.acts.map((act) => ({ at: act.at, tone: 'act', draw: html`<strong>${short(act.what, 40)}</strong> by ${short(act.by, 60)}
      <span class="dim"> ${short(act.detail, 200)}</span>` })),
    ...story.events.filter((one) => !known.has(one.attempt)).map((event) => ({ at: event.at, tone: 'note', draw: short(event.text, 300) })),
  ];
  if (story.answer) all.push({ at: story.answer.created_at, tone: 'good', draw: html`<strong>Answer on disk</strong> <span class="dim">${SOURCE[story.answer.source]}</span>` });
  return all.sort((a, b) => a.at.localeCompare(b.at));
}

const REPLY_TONES = { sent: 'good', dead: 'failed' };

/** @param {Api.StoryView['replies'][0]} reply */
const Reply = (reply) => html`<li key=${`reply ${reply.ordinal}`} class="moment ${REPLY_TONES[reply.state]}">
  <strong>${reply.kind === 'notice' ? 'Notice' : 'Reply'} ${reply.ordinal + 1}</strong> <${Badge} tone=${REPLY_TONES[reply.state] ?? 'waits'}>${line(reply.state, 20)}<//>
  <span class="dim"> ${counted(reply.tries, 'try', 'tries')}${reply.receipt && html`, receipt <code>${line(reply.receipt, 60)}</code>`}${reply.not_before && html`, sent again ${exactly(reply.not_before)}`}</span>
  ${reply.reason && html`<p class="reason">${full(reply.reason)}</p>`}${reply.notice && html`<p>${full(reply.notice)}</p>`}</li>`;

export function Why({ id, session }) {
  const { value: story, error, reload } = useRows(() => get(`messages/${id}`), [id], ({ data }) => data.message_id === id);
  if (!story) return html`<${Loading} error=${error} what="this message" again=${reload} />`;
  const { channel, conversation, state, why } = story;
  const other = (message) => html`<a href="#/messages/${message}">${message.slice(-8)}</a> `;
  /** @param {'cancel' | 'redrive' | 'drop'} verb */
  const act = (verb) => () => post(`messages/${id}/${verb}`).then((done) => { notify(done.detail); reload(); });
  return html`
    <${Head} title="Why" sub=${html`<code>${line(id, 60)}</code> in ${short(conversation, 60)}`}>
      <a class="button" href="#/messages/${id}/conversation">Conversation</a>
      ${!isOver(story) && !story.stop && state !== 'parked' && html`<${Act} tone="danger" act=${act('cancel')}>Stop<//>`}
      ${['dead', 'parked'].includes(state) && html`<${Act} tone="primary" act=${act('redrive')}>${state === 'parked' ? 'Go on' : 'Retry'}<//><${Act} act=${act('drop')}>Discard<//>`}<//>
    <section class="card answer-why" aria-live="polite"><p class="now-big">${mark(story.phase)} ${full(why.now)}</p>
      ${why.next && html`<p>Next: ${full(why.next)}</p>`}
      ${story.hold && html`<p class="reason">Until ${exactly(story.hold.until)}: ${full(story.hold.failure.reason)}</p>`}
      ${story.failure && html`<p class="reason"><${Badge} tone="failed">${short(story.failure.class, 20)}<//> ${full(story.failure.reason)}</p>`}
      <${Facts} rows=${[['Behind', story.behind && other(story.behind)], ['Joined the turn of', story.leader && other(story.leader)],
        ['Took along', story.followers.length > 0 && story.followers.map(other)], ['Stopped', story.stop && full(story.stop)],
        ['Suspect', story.suspect && 'Codex died once while it worked on this: suspects run one at a time'], ['Node', story.node && full(story.node)]]} /></section>
    <${States} story=${story} />
    ${story.requests.filter(isUndecided).map((request) => html`<${Question} key=${request.request_id} request=${{ ...request, message_id: id, channel, conversation }} session=${session} onDecided=${reload} />`)}
    <details class="past"><summary>What was said</summary><${LongText} text=${visible(story.text)} label="The message" /></details>
    <ol class="timeline" aria-label="What happened">${moments(story).map((moment, at) => html`<li key=${at} class="moment ${moment.tone}">
      ${exactly(moment.at)} ${moment.draw}</li>`)}${story.replies.map(Reply)}
      ${!isOver(story) && html`<li class="moment next"><strong>Next</strong> ${full(why.next)}</li>`}</ol>`;
}
