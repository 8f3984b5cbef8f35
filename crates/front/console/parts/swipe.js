// @ts-check
/** Swipes on a touch screen: to the right or to the left, decided when the finger is lifted. */

import { useRef } from '../lib/html.js';

/** How far, as a part of the width. */
const FAR = 0.4;

/**
 * Attributes for the element that is swiped. While it is, `--swipe` says how far, and `data-swipe` what would happen.
 * @param {{ onRight?: () => void, onLeft?: () => void }} acts
 */
export function useSwipe({ onRight, onLeft }) {
  const start = useRef(/** @type {{ x: number, y: number, moves: boolean } | null} */ (null));

  /** @param {HTMLElement} element @param {number} by */
  const show = (element, by) => {
    element.style.setProperty('--swipe', `${by}px`);
    const act = Math.abs(by) < element.offsetWidth * FAR ? '' : by > 0 ? 'accept' : 'decline';
    element.dataset.swipe = act;
    return act;
  };
  /** @param {PointerEvent} event */
  const end = (event) => {
    const element = /** @type {HTMLElement} */ (event.currentTarget);
    const act = start.current?.moves && event.type === 'pointerup' ? element.dataset.swipe : '';
    start.current = null;
    element.classList.remove('swiping');
    show(element, 0);
    if (act === 'accept') onRight?.();
    if (act === 'decline') onLeft?.();
  };
  return {
    onPointerDown: (/** @type {PointerEvent} */ event) => {
      const inside = /** @type {Element} */ (event.target).closest('.long, button, input, textarea, a, summary');
      // Long texts scroll sideways themselves.
      const scrolls = inside?.classList.contains('long') && inside.scrollWidth > inside.clientWidth;
      if (event.pointerType === 'mouse' || (inside && (scrolls || !inside.classList.contains('long')))) return;
      start.current = { x: event.clientX, y: event.clientY, moves: false };
    },
    onPointerMove: (/** @type {PointerEvent} */ event) => {
      const from = start.current;
      if (!from) return;
      const [x, y] = [event.clientX - from.x, event.clientY - from.y];
      if (!from.moves && Math.abs(x) < 12) return;
      if (!from.moves && Math.abs(y) > Math.abs(x)) return void (start.current = null);
      const element = /** @type {HTMLElement} */ (event.currentTarget);
      if (!from.moves) {
        from.moves = true;
        element.classList.add('swiping');
        element.setPointerCapture(event.pointerId);
      }
      show(element, (x > 0 && !onRight) || (x < 0 && !onLeft) ? x / 6 : x);
    },
    onPointerUp: end,
    onPointerCancel: end,
  };
}
