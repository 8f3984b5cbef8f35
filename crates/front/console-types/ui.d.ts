// What the console uses of Preact and htm, and the types that its modules share. They are here and not in the modules,
// because the browser gets those as they are.

type VNode = { type: unknown; props: unknown; key: unknown };
type Child = VNode | string | number | bigint | boolean | null | undefined | Child[];
type Ref<T> = { current: T };
/** What a template may hold: the parameters of a function there are what the component or event gives it. */
type Hole = {} | null | undefined | ((...given: any[]) => unknown);

interface Hooks {
  /** A state that begins as nothing may become anything. */
  useState(initial: null | never[]): [any, (next: any) => void];
  useState<S>(initial: S | (() => S)): [S, (next: S | ((previous: S) => S)) => void];
  useEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
  useLayoutEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
  useRef(initial: unknown): Ref<any>;
  useMemo<T>(factory: () => T, inputs: readonly unknown[]): T;
  useCallback<F extends Function>(callback: F, inputs: readonly unknown[]): F;
  useErrorBoundary(callback?: (error: unknown) => void): [unknown, () => void];
}

type Templates = { html: (strings: TemplateStringsArray, ...values: Hole[]) => VNode; render: (node: VNode, parent: Element) => void };

/** Why a call failed; status 0: the daemon was not reached. */
type Failed = Error & { status: number };
/** One event of a stream. */
type StreamEvent = { name: string; id: string | null; data: any };
/** Who the page is signed in as. */
type Session = Api.SessionView | null;

/** Calls of `/v1`, typed by the path. */
type Get = <P extends string>(path: P, query?: Record<string, string | number | null | undefined>) => Promise<Api.Got<P>>;
type Post = <P extends string>(path: P, body?: {}, headers?: Record<string, string>) => Promise<Api.Posted<P>>;
type Everything = <P extends string, F extends keyof Api.Got<P>>(path: P, field: F, query?: Record<string, string | number>, most?: number) => Promise<Api.Got<P>[F]>;
type UseRows = <T>(read: () => Promise<T>, inputs: readonly unknown[], concerns?: (event: StreamEvent) => boolean)
  => { value: T | null; error: Failed | null; reload: () => void };
/** `endsWith`: the event after which the stream is over. */
type Follow = {
  signal: AbortSignal; lastId?: string | null | undefined; endsWith?: string;
  onEvent: (event: StreamEvent) => void; onConnection?: (connected: boolean) => void;
};

/** Keys that a screen names and `?` shows; a key is `a` or `g c`. */
type KeyGroup = { title: string; bindings: { key: string; what: string; run: () => void }[] };
/** What keys do with the question that is looked at. */
type Deciding = { accept: () => void; decline: () => void };
/** What happens for a message, as it happens. */
type Live = { items: Api.EventView[]; text: string; diff: string; output: string; message: Api.MessageView | null };
type Upload = { name: string; data: string; size: number };
/** One of what a question wants filled in. */
type Field = {
  id: string; title: string; options: { label: string; help: string; value: unknown }[]; required: boolean; preset?: unknown; secret?: boolean;
  typed: '' | 'text' | 'integer' | 'number' | 'boolean';
};
/** A line of a chart: a value for each step. */
type Series = { name: string; values: (number | null | undefined)[] };
/** `GET /v1/audit`, all pages. */
type AuditPart = Omit<Api.AuditList, 'next'> & { whole: boolean };
type Finding = { tone: 'good' | 'failed' | 'waits'; words: string };
/** Of dead letters. */
type Verb = 'retry' | 'discard';

/** A screen of the frame: what it exports by `name` gets `id`, `sub` and `session`. */
type Entry = { path: string; key: string; name: string; file: string; icon: string; count?: string };

/** What components are given, where it is rows of the daemon. */
declare namespace Props {
  type Ask = { verb: Verb; some: Api.DeadView[]; onClose: () => void; reload: () => void };
  type Attempt = { attempt: Api.AttemptView; story: Api.StoryView };
  type Bars = { rows: [string, number][]; label: string; tone?: string };
  type Budget = { sender: Api.SenderView };
  type Columns = { label: string; labels: string[]; values: number[] };
  type Database = { ledger: Api.StatusView['health']['ledger']; size: number | null | undefined };
  type Dead = { one: Api.DeadView; chosen: boolean; choose: (on: boolean) => void; ask: (verb: Verb) => void };
  type Explained = { found: Api.ExplainView };
  type Facts = { rows: [string, Child][] };
  type Files = { files: Api.FileView[]; path: string };
  type Form = { fields: Field[]; filled: Record<string, unknown>; onFill: (id: string, value: unknown) => void; name: string };
  type Found = { list: Api.SearchList };
  type GoOn = { story: Api.ConversationStory; reload: () => void };
  type Input = { field: Field; value: unknown; fill: (value: unknown) => void };
  type Lines = { series: Series[]; labels: string[]; label: string };
  type Message = { message: Api.MessageView; session: Session; reload: () => void };
  type Nodes = { nodes: Api.NodeView[]; reload: () => void };
  type Plot = { label: string; labels: string[]; series: Series[]; format: (value: number) => string; draw: (x: (at: number) => number, y: (value: number) => number, step: number) => Child };
  type Question = { request: Api.RequestEntry; session: Session; current?: boolean; alone?: boolean; onDecided?: () => void; handle?: (acts: Deciding) => void };
  type Revoke = { token: Api.TokenView; onClose: () => void; reload: () => void };
  type Settled = { request: Api.RequestEntry };
  type States = { story: Api.StoryView };
  type Steps = { items: Api.EventView[] };
  type Tokens = { tokens: Api.TokenView[]; title: string; none: Child; revoke: (token: Api.TokenView) => void; own?: string };
  type Uploads = { files: Upload[]; onChange: (files: Upload[]) => void };
  type Verified = { part: AuditPart };
  type Working = { live: Live };
  type Would = { one: Api.DeadView };
}

/** What `sw.js` uses of a service worker: TypeScript has its library only instead of a page's. */
interface ServiceWorkerGlobalScope {
  registration: ServiceWorkerRegistration;
  clients: { matchAll(options: object): Promise<WorkerPage[]>; openWindow(address: string): Promise<unknown> };
  skipWaiting(): Promise<void>;
  addEventListener(name: 'push', listener: (event: Lasting & { data: { json(): any } | null }) => void): void;
  addEventListener(name: 'notificationclick', listener: (event: Lasting & { notification: Notification; action: string }) => void): void;
  addEventListener(name: 'install', listener: () => void): void;
}
interface Lasting { waitUntil(work: Promise<unknown>): void }
interface WorkerPage { visibilityState: string; focus(): Promise<unknown>; postMessage(message: unknown): void }
