// @ts-check
/** One message of a conversation: what was said, what Codex does for it, its answer. */

import { download, get, post } from '../lib/api.js';
import { html, useEffect, useState } from '../lib/html.js';
import { notify } from '../lib/keys.js';
import { asApiError } from '../lib/live.js';
import { Markdown } from '../lib/markdown.js';
import { follow } from '../lib/stream.js';
import { When, bytes, counted, output, shortId, visible } from '../lib/text.js';
import { Act, Badge, Line, LongText, Phase, Text } from './basics.js';
import { Question, isUndecided } from './question.js';

const OVER = ['done', 'failed', 'stopped'];

/** @param {Api.MessageView} message */
export const isOver = (message) => OVER.includes(message.phase ?? '');

/** Whether somebody looks at the page: hidden pages give their connection back. */
function useLooked() {
  const [looked, setLooked] = useState(!document.hidden);
  useEffect(() => {
    const change = () => setLooked(!document.hidden);
    document.addEventListener('visibilitychange', change);
    return () => document.removeEventListener('visibilitychange', change);
  }, []);
  return looked;
}

/**
 * What Codex does for a message, as it happens.
 * @param {string} id
 * @param {boolean} wanted
 * @returns {Live}
 */
export function useLive(id, wanted) {
  const [live, setLive] = useState(/** @type {Live} */ ({ items: [], text: '', diff: '', output: '', message: null }));
  const looked = useLooked();
  useEffect(() => {
    if (!wanted || !looked) return;
    const abort = new AbortController();
    const newest = { ...live };
    let drawn = 0;
    const draw = () => {
      drawn ||= requestAnimationFrame(() => {
        drawn = 0;
        setLive({ ...newest });
      });
    };
    follow(`messages/${encodeURIComponent(id)}/events`, {
      signal: abort.signal,
      endsWith: 'end',
      lastId: newest.items.length > 0 ? String(newest.items.at(-1)?.ordinal) : null,
      onEvent: ({ name, data }) => {
        if (name === 'item' && !newest.items.some((item) => item.ordinal === data.ordinal)) newest.items = [...newest.items, data];
        else if (name === 'text' || name === 'diff' || name === 'output') newest[name] = data.text;
        else if (name === 'state' || name === 'end') newest.message = data;
        draw();
      },
    });
    return () => {
      abort.abort();
      cancelAnimationFrame(drawn);
    };
  }, [id, wanted, looked]);
  return live;
}

/** @param {Props.Steps} _ */
export const Steps = ({ items }) => html`<ol class="steps">${items.map((item) => html`
  <li key=${item.ordinal} class=${item.kind.replace(/[^a-z]/g, '-')}>
    <${Line} text=${item.text} length=${400} /> <${When} at=${item.at} exactly /></li>`)}</ol>`;

/** Steps of a message that is over: read when somebody wants to see them. @param {Props.PastSteps} _ */
function PastSteps({ id }) {
  const [items, setItems] = useState(/** @type {Api.EventView[] | null} */ (null));
  const open = (/** @type {any} */ event) => {
    if (!event.target.open || items) return;
    get(`messages/${encodeURIComponent(id)}`).then((story) => setItems(story.events), (error) => notify(asApiError(error).message, 'failed'));
  };
  return html`<details class="past" onToggle=${open}><summary>What Codex did</summary>
    ${items && (items.length > 0 ? html`<${Steps} items=${items} />` : html`<p class="dim">Nothing but answer.</p>`)}</details>`;
}

/** @param {Props.MessageFiles} _ */
function Files({ files, message, answer }) {
  if (files.length === 0) return null;
  const save = async (/** @type {Api.FileView} */ file, /** @type {number} */ at) => {
    const content = await download(`messages/${encodeURIComponent(message)}/${answer ? 'answer/' : ''}files/${at}`);
    const url = URL.createObjectURL(content);
    const link = document.createElement('a');
    link.href = url;
    link.download = file.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  };
  return html`<ul class="files">${files.map((file, at) => html`<li>
    <${Act} tone="plain" act=${() => save(file, at)} title=${visible(file.path)}>↓ <${Text} text=${file.name} /><//>
    <span class="dim">${bytes(file.bytes)}, <${Line} text=${file.media_type} length=${40} /></span></li>`)}</ul>`;
}

/** What happens now, in the words of `why`. @param {Props.Now} _ */
const Now = ({ message }) => html`<p class="now"><${Text} text=${message.why.now} />
  ${message.why.next && html` <span class="dim"><${Text} text=${message.why.next} /></span>`}</p>`;

/** @param {Props.Working} _ */
function Working({ live }) {
  return html`<div class="live-work" aria-busy="true">
    ${live.items.length > 0 && html`<${Steps} items=${live.items.slice(-8)} />`}
    ${live.output && html`<${LongText} text=${output(live.output)} label="Output of the command" />`}
    ${live.diff && html`<details open><summary>What changed in files</summary>
      <${LongText} text=${visible(live.diff)} diff label="What changed in files" /></details>`}
    ${live.text && html`<div class="answer streaming"><${Markdown} text=${live.text} /></div>`}
  </div>`;
}

/** @param {Props.Message} _ */
export function Message({ message: row, mayAccept, reload }) {
  const live = useLive(row.message_id, !isOver(row));
  const message = live.message && live.message.updated_at >= row.updated_at ? live.message : row;
  const asked = message.requests.filter(isUndecided);
  const running = !isOver(message);
  const id = encodeURIComponent(message.message_id);
  return html`<article class="message" aria-label="Message ${shortId(message.message_id)}">
    <header class="meta"><strong><${Line} text=${message.sender} length=${60} /></strong> <${When} at=${message.received_at} />
      <${Phase} phase=${message.phase} />${message.suspect && html`<${Badge} title="Codex died once while it worked on this">suspect<//>`}
      ${message.attempt > 1 && html`<span class="dim">attempt ${message.attempt}</span>`}
      <a class="right" href="#/messages/${id}">why</a>
      ${running && !message.stop && html`<${Act} tone="plain" act=${() => post(`messages/${id}/cancel`).then((done) => { notify(done.detail); reload(); })}>Stop<//>`}
    </header>
    <div class="said">${message.text.length > 4000 ? html`<${LongText} text=${visible(message.text)} label="The message" />`
      : html`<p class="words" dir="auto">${visible(message.text)}</p>`}
      <${Files} files=${message.files} message=${message.message_id} /></div>
    ${!running && html`<${PastSteps} id=${message.message_id} />`}
    ${asked.map((request) => html`<${Question} key=${request.request_id} mayAccept=${mayAccept} onDecided=${reload}
      request=${{ ...request, message_id: message.message_id, channel: message.channel, conversation: message.conversation }} />`)}
    ${running && html`<${Working} live=${live} />`}
    ${message.answer && html`<div class="answer"><${Markdown} text=${message.answer.text} />
      <${Files} files=${message.answer.files} message=${message.message_id} answer />
      ${message.answer.source !== 'live'
        && html`<p class="dim">${message.answer.source === 'harvested' ? 'Taken from Codex’s history after a crash.' : 'Shared with the message whose turn it joined.'}</p>`}</div>`}
    ${(running || !message.answer) && html`<${Now} message=${message} />`}
    ${message.followers.length > 0 && html`<p class="dim">${counted(message.followers.length, 'message')} joined its turn.</p>`}
  </article>`;
}
