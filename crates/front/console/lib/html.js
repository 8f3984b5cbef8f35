// @ts-check
/** Preact and htm, with types. */

import * as preact from '../vendor/preact.mjs';
import * as hooks from '../vendor/hooks.mjs';
import htm from '../vendor/htm.mjs';

export const { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useErrorBoundary } = /** @type {Hooks} */ (/** @type {unknown} */ (hooks));
export const { html, render } = /** @type {Templates} */ ({ html: htm.bind(preact.h), render: preact.render });

/** For `onInput`. */
export const typed = (set) => ({ target }) => set(target.value);
