// @ts-check
/** One message as a branching timeline: where it is, how it came there, and what happens next. */

import { get, post } from '../lib/api.js';
import { html } from '../lib/html.js';
import { notify } from '../lib/keys.js';
import { useRows } from '../lib/live.js';
import { When, counted, line, span, visible } from '../lib/text.js';
import { Act, Badge, Facts, Head, Line, Loading, LongText, Phase, Problem, Text } from '../parts/basics.js';
import { isOver } from '../parts/message.js';
import { mayAccept, Question, Settled, isUndecided } from '../parts/question.js';

/** The trunk of a life, and where it can leave it (`docs/ARCHITECTURE.md`, the life of a message). */
const TRUNK = ['received', 'claimed', 'starting', 'running', 'answered', 'sending', 'done'];
/** @type {Record<string, [from: string, words: string]>} */
const SIDE = {
  steered: ['claimed', 'joined another turn'], unclear: ['running', 'its end was not seen: looked up'], parked: ['running', 'cut after a change: waits for you'],
  dead: ['running', 'given up'], cancelled: ['received', 'stopped'],
};

/** Where it is among the states. @param {Props.States} _ */
function States({ story }) {
  const side = SIDE[story.state];
  const reached = story.replies.length > 0 || story.answer ? TRUNK.indexOf('answered') : story.attempts.length > 0 ? TRUNK.indexOf('running') : 0;
  const at = TRUNK.indexOf(story.state);
  const passed = (/** @type {number} */ index) => index < (at >= 0 ? at : reached + 1);
  return html`<ol class="states" aria-label="States of a message">${TRUNK.map((state, index) => html`
    <li key=${state} class=${state === story.state ? 'here' : passed(index) ? 'passed' : ''} aria-current=${state === story.state ? 'step' : undefined}><span>${state}</span>
      ${side && TRUNK[at >= 0 ? at : reached] === state
        && html`<span class="branch ${story.state}" aria-current="step">${story.state}<small>${side[1]}</small></span>`}</li>`)}</ol>`;
}

/** @param {Props.Attempt} _ */
function Attempt({ attempt, story }) {
  const events = story.events.filter((event) => event.attempt === attempt.attempt);
  const took = attempt.ended_at ? new Date(attempt.ended_at).getTime() - new Date(attempt.started_at).getTime() : null;
  const requests = story.requests.filter((request) => request.attempt === attempt.attempt && !isUndecided(request));
  return html`<details class="attempt ${attempt.state}" open=${story.attempts.length < 4 || attempt === story.attempts.at(-1)}>
    <summary><strong>Attempt ${attempt.attempt}</strong> <${Badge} tone=${attempt.state === 'lost' ? 'failed' : ''}>${line(attempt.state, 20)}<//>
      <span class="dim">${took !== null && `${span(took)}, `}${(attempt.input_tokens + attempt.output_tokens).toLocaleString()} tokens, <${Line} text=${attempt.sandbox} length=${30} />${attempt.touched && ', may have changed something'}</span></summary>
    ${attempt.failures.map((text) => html`<p class="reason"><${Text} text=${text} /></p>`)}
    <ol class="steps">${events.map((event) => html`<li key=${event.ordinal} class=${event.kind.replace(/[^a-z]/g, '-')}>
      <${Line} text=${event.text} length=${300} /> <${When} at=${event.at} exactly /></li>`)}</ol>
    ${requests.map((request) => html`<div class="asked" key=${request.request_id}><a href="#/requests/${encodeURIComponent(request.request_id)}">
      <${Line} text=${request.headline} length=${200} /></a>
      <${Settled} request=${{ ...request, message_id: story.message_id, channel: story.channel, conversation: story.conversation }} /></div>`)}
    <details><summary>For programs</summary><${Facts} rows=${[['Client id', html`<code>${line(attempt.client_id, 80)}</code>`],
      ['Thread', html`<code>${line(attempt.thread_id, 80)}</code>`],
      ['Turn', attempt.turn_id && html`<code>${line(attempt.turn_id, 80)}</code>`],
        ['Life of Codex', html`<code>${line(attempt.incarnation, 40)}</code>`]]} /></details>
  </details>`;
}

/** @param {Api.StoryView} story @returns {Moment[]} */
function moments(story) {
  /** @type {Moment[]} */
  const all = [{ at: story.received_at, tone: 'begin', draw: html`<strong>Came</strong> from <${Line} text=${story.sender} length=${60} /> over <${Line} text=${story.channel} length=${60} />` }];
  for (const attempt of story.attempts) all.push({ at: attempt.started_at, tone: attempt.state === 'lost' || attempt.failures.length > 0 ? 'failed' : 'turn', draw: html`<${Attempt} attempt=${attempt} story=${story} />` });
  for (const act of story.acts) all.push({ at: act.at, tone: 'act', draw: html`<strong>
    <${Line} text=${act.what} length=${40} /></strong> by <${Line} text=${act.by} length=${60} /> <span class="dim">
    <${Line} text=${act.detail} length=${200} /></span>` });
  const before = new Set(story.attempts.map((attempt) => attempt.attempt));
  for (const event of story.events.filter((one) => !before.has(one.attempt))) all.push({ at: event.at, tone: 'note', draw: html`<${Line} text=${event.text} length=${300} />` });
  if (story.answer) all.push({ at: story.answer.created_at, tone: 'answer', draw: html`<strong>Answer on disk</strong> <span class="dim">${{ live: '', harvested: 'taken from Codex’s history after a crash', shared: 'shared with the message whose turn it joined' }[story.answer.source] ?? ''}</span>` });
  return all.sort((a, b) => a.at.localeCompare(b.at));
}

/** @param {Props.Replies} _ */
const Replies = ({ story }) => html`${story.replies.map((reply) => html`<li key=${`reply ${reply.ordinal}`} class="moment ${reply.state === 'dead' ? 'failed' : reply.state === 'sent' ? 'answer' : 'note'}">
  <strong>${reply.kind === 'notice' ? 'Notice' : 'Reply'} ${reply.ordinal + 1}</strong> <${Badge} tone=${reply.state === 'sent' ? 'good' : reply.state === 'dead' ? 'failed' : 'waits'}>${line(reply.state, 20)}<//>
  <span class="dim">${counted(reply.tries, 'try', 'tries')}${reply.receipt && html`, receipt <code>${line(reply.receipt, 60)}</code>`}${reply.not_before && html`, sent again <${When} at=${reply.not_before} exactly />`}</span>
  ${reply.reason && html`<p class="reason"><${Text} text=${reply.reason} /></p>`}${reply.notice && html`<p><${Text} text=${reply.notice} /></p>`}</li>`)}`;

/** @param {Props.Acts} _ */
function Acts({ story, reload }) {
  const act = (/** @type {string} */ verb) => () => post(`messages/${encodeURIComponent(story.message_id)}/${verb}`).then((done) => { notify(done.detail); reload(); });
  const waits = ['dead', 'parked'].includes(story.state);
  return html`<a class="button" href="#/messages/${encodeURIComponent(story.message_id)}/conversation">Conversation</a>
    ${!isOver(story) && !story.stop && story.state !== 'parked' && html`<${Act} tone="danger" act=${act('cancel')}>Stop<//>`}
    ${waits && html`<${Act} tone="primary" act=${act('redrive')}>${story.state === 'parked' ? 'Go on' : 'Retry'}<//><${Act} act=${act('drop')}>Discard<//>`}`;
}

/** @param {Route} _ */
export function Screen({ id, session }) {
  const { value: story, error, reload } = useRows(() => /** @type {Promise<Api.StoryView>} */ (get(`messages/${encodeURIComponent(id)}`)), [id],
    ({ data }) => data.message_id === id);
  if (!story) return error ? html`<${Problem} error=${error} what="this message" again=${reload} />` : html`<${Loading} />`;
  const next = (/** @type {string} */ other) => html`<a href="#/messages/${encodeURIComponent(other)}">${other.slice(-8)}</a>`;
  return html`
    <${Head} title="Why" sub=${html`<code>${line(id, 60)}</code> in <${Line} text=${story.conversation} length=${60} />`}>
      <${Acts} story=${story} reload=${reload} /><//>
    <section class="card answer-why" aria-live="polite"><p class="now-big"><${Phase} phase=${story.phase} /> <${Text} text=${story.why.now} /></p>
      ${story.why.next && html`<p>Next: <${Text} text=${story.why.next} /></p>`}
      ${story.hold && html`<p class="reason">Until <${When} at=${story.hold.until} exactly />: <${Text} text=${story.hold.failure.reason} /></p>`}
      ${story.failure && html`<p class="reason"><${Badge} tone="failed">
        <${Line} text=${story.failure.class} length=${20} /><//> <${Text} text=${story.failure.reason} /></p>`}
      <${Facts} rows=${[['Behind', story.behind && next(story.behind)], ['Joined the turn of', story.leader && next(story.leader)],
        ['Took along', story.followers.length > 0 && story.followers.map((one) => html`${next(one)} `)],
          ['Stopped', story.stop && html`<${Text} text=${story.stop} />`],
        ['Suspect', story.suspect && 'Codex died once while it worked on this: suspects run one at a time'],
          ['Node', story.node && html`<${Text} text=${story.node} />`]]} /></section>
    <${States} story=${story} />
    ${story.requests.map((request) => ({ ...request, message_id: id, channel: story.channel, conversation: story.conversation })).filter(isUndecided)
      .map((request) => html`<${Question} key=${request.request_id} request=${request} mayAccept=${mayAccept(session)} onDecided=${reload} />`)}
    <details class="past"><summary>What was said</summary><${LongText} text=${visible(story.text)} label="The message" /></details>
    <ol class="timeline" aria-label="What happened">${moments(story).map((moment, at) => html`<li key=${at} class="moment ${moment.tone}">
      <${When} at=${moment.at} exactly /> ${moment.draw}</li>`)}<${Replies} story=${story} />
      ${!isOver(story) && html`<li class="moment next"><strong>Next</strong> <${Text} text=${story.why.next} /></li>`}</ol>`;
}
