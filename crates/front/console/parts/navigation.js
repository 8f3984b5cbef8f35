// @ts-check
/** The list of screens: at the side, or along the bottom of a phone. */

import { html, useEffect, useState } from '../lib/html.js';


const PHONE = matchMedia('(max-width: 760px)');
/** Screens that a phone shows without `More`. */
const FIRST = 4;

/** @type {Record<string, string>} */
const ICONS = {
  requests: 'M4 13l3-8h10l3 8v6H4zM4 13h5a3 3 0 0 0 6 0h5',
  conversations: 'M4 5h16v11H10l-5 4v-4H4z',
  tasks: 'M9 6h11M9 12h11M9 18h11M4 6l1 1 2-2M4 12l1 1 2-2M4 18l1 1 2-2',
  dead: 'M12 4l9 16H3zM12 10v4M12 17v.5',
  health: 'M3 12h4l2-6 4 12 2-6h6',
  figures: 'M5 20V10M12 20V4M19 20v-7',
  access: 'M14 10a4 4 0 1 1-3.5-4M12 11l8 8M17 16l2-2',
  policy: 'M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6zM9 12l2 2 4-4',
  audit: 'M6 3h9l4 4v14H6zM9 11h7M9 15h7',
  more: 'M5 12h.5M12 12h.5M19 12h.5',
};

/** @param {Props.Icon} _ */
const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;

/** @param {Props.Navigation} _ */
export function Navigation({ entries, counts, here, showKeys }) {
  const [phone, setPhone] = useState(PHONE.matches);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const fold = () => setPhone(PHONE.matches);
    const close = () => setOpen(false);
    PHONE.addEventListener('change', fold);
    addEventListener('hashchange', close);
    return () => {
      PHONE.removeEventListener('change', fold);
      removeEventListener('hashchange', close);
    };
  }, []);
  const link = (/** @type {Entry} */ { path, name, count }) => html`<li key=${path}>
    <a href="#/${path}" aria-current=${here === path ? 'page' : undefined}><${Icon} name=${path} /><span>${name}</span>
      ${count && counts[count] > 0 && html`<b class="count ${count}"><span class="spoken">, </span>${counts[count]}</b>`}</a></li>`;
  const rest = entries.slice(FIRST);
  const toggle = () => setOpen(!open);
  return html`<nav aria-label="Screens"><p class="brand">codex-bridge</p>
    <ul>${entries.slice(0, FIRST).map(link)}</ul>
    <div class="rest">
      ${phone && html`<button class="plain" aria-expanded=${open} onClick=${toggle}><${Icon} name="more" /><span>More</span></button>`}
      ${(!phone || open) && html`<ul>${rest.map(link)}</ul>`}</div>
    <button class="plain keys-button" onClick=${showKeys}><kbd>?</kbd> Keys</button></nav>`;
}
