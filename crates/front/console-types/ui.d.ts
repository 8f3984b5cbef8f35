// What the console uses of Preact and htm, and the types that its modules share. They are here and not in the modules,
// because the browser gets those as they are.

type VNode = { type: unknown; props: unknown; key: unknown };
type Child = VNode | string | number | bigint | boolean | null | undefined | Child[];
type Ref<T> = { current: T };
/** What a template may hold: the parameters of a function there are what the component or event gives it. */
type Hole = {} | null | undefined | ((...given: any[]) => unknown);

interface Hooks {
  useState<S>(initial: S | (() => S)): [S, (next: S | ((previous: S) => S)) => void];
  useEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
  useLayoutEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
  useRef<T>(initial: T): Ref<T>;
  useMemo<T>(factory: () => T, inputs: readonly unknown[]): T;
  useCallback<F extends Function>(callback: F, inputs: readonly unknown[]): F;
  useErrorBoundary(callback?: (error: unknown) => void): [unknown, () => void];
}

/** `ApiError` of `lib/api.js`. */
type Failed = import('../console/lib/api.js').ApiError;
/** One event of a stream. */
type StreamEvent = { name: string; id: string | null; data: any };
/** Who the page is signed in as. */
type Session = { half?: string; name: string; scopes: string[]; expires_at?: string };

type Decision = 'accept' | 'acceptForSession' | 'decline' | 'cancel';
type Deciding = { accept: () => void; decline: () => void };
/** What happens for a message, as it happens. */
type Live = { items: Api.EventView[]; text: string; diff: string; output: string; message: Api.MessageView | null };
type Upload = { name: string; data: string; size: number };
type Option = { label: string; help: string; value: unknown };
type Field = { id: string; title: string; options: Option[]; typed: '' | 'text' | 'integer' | 'number' | 'boolean'; required: boolean; preset: unknown; secret: boolean };
/** A place in a message's life, drawn. */
type Moment = { at: string; tone: string; draw: Child };
/** Of a chart: a name and its values, one for each step. */
type Series = { name: string; values: (number | null | undefined)[] };

/** `GET /v1/audit`. */
type AuditPart = Omit<Api.AuditList, 'next'> & { whole: boolean };
type Finding = { tone: 'good' | 'failed' | 'waits'; words: string };

/** `POST /v1/dead/retry`, `POST /v1/dead/discard`. */
type Verb = 'retry' | 'discard';

/** A screen of the frame. */
type Entry = { path: string; key: string; name: string; count?: 'requests' | 'failed'; load: (id: string, sub: string) => Promise<{ Screen: unknown }> };
type Route = { id: string; sub: string; session: Session | null };
type Counts = { requests: number; failed: number };

/** What each component is given. */
declare namespace Props {
  type Keys = { onClose: () => void };
  type SignedOut = { reason: string };
  type Screen = Route & { entry: Entry };
  type Frame = { session: Session | null };
  type Markdown = { text: string };
  type When = { at: string | null | undefined; exactly?: boolean };
  type Countdown = { at: string };
  type Ago = { at: string };
  type Line = { text: string | null | undefined; length?: number };
  type Text = { text: string | null | undefined };
  /** `quiet`: the mark alone */
  type Phase = { phase: string | null | undefined; quiet?: boolean };
  type Badge = { tone?: string; children?: Child; title?: string };
  type Empty = { title: string; children?: Child };
  type Problem = { error: Failed | null; what: string; again?: () => void };
  type Act = { act: () => Promise<unknown>; done?: string; tone?: string; disabled?: boolean; title?: string; about?: string; children?: Child };
  type Dialog = { title: string; onClose: () => void; children?: Child; wide?: boolean };
  type Confirm = { title: string; yes: string; act: () => Promise<unknown>; onClose: () => void; tone?: string; children?: Child };
  /** rows without a value are left out */
  type Facts = { rows: [string, Child][] };
  type Head = { title: Child; sub?: Child; children?: Child };
  type Plot = { top: number; format: (value: number) => string; labels: string[]; label: string; names: string[]; values: (number | null | undefined)[][]; draw: (x: (at: number) => number, y: (value: number) => number, step: number) => Child };
  type Columns = { points: { label: string; value: number }[]; label: string };
  type Lines = { series: Series[]; labels: string[]; label: string; format: (value: number) => string };
  type Bars = { rows: [string, number][]; label: string; tone?: string };
  type Files = { files: Upload[]; onChange: (files: Upload[]) => void };
  type Write = { label: string; hint: Child; send: (text: string, files: Upload[], key: string) => Promise<void>; verb: string; withFiles?: boolean; rows?: number };
  type Form = { fields: Field[]; filled: Record<string, unknown>; onFill: (id: string, value: unknown) => void; name: string };
  type Input = { field: Field; value: unknown; onFill: (id: string, value: unknown) => void };
  type Part = { height: number; now: boolean; draw: () => Child };
  /** the text is shown as it is */
  type LongText = { text: string; label: string; diff?: boolean; onEnd?: () => void };
  type Steps = { items: Api.EventView[] };
  type PastSteps = { id: string };
  type MessageFiles = { files: Api.FileView[]; message: string; answer?: boolean };
  type Now = { message: Api.MessageView };
  type Working = { live: Live };
  type Message = { message: Api.MessageView; mayAccept: boolean; reload: () => void };
  type Icon = { name: string };
  type Navigation = { entries: Entry[]; counts: Counts; here: string; showKeys: () => void };
  type Whose = { request: Api.RequestEntry };
  type Settled = { request: Api.RequestEntry };
  type Question = { request: Api.RequestEntry; current?: boolean; onDecided?: () => void; mayAccept?: boolean; handle?: (acts: Deciding) => void; alone?: boolean };
  type Again = { request: Api.RequestEntry; decision: Decision; act: () => Promise<void>; onClose: () => void };
  type Make = { onClose: () => void; reload: () => void };
  type Revoke = { token: Api.TokenView; onClose: () => void; reload: () => void };
  type Budget = { sender: Api.SenderView };
  type Table = { tokens: Api.TokenView[]; title: string; revoke: (token: Api.TokenView) => void; own: string | undefined; children?: any };
  type Access = { session: Session | null };
  type Verified = { part: AuditPart };
  type Row = { entry: Api.AuditEntryView };
  type GoOn = { story: Api.ConversationStory; reload: () => void };
  type Conversation = { id: string; session: Session | null };
  type ToConversation = { id: string };
  type ConversationsRow = { one: Api.ActiveConversation };
  type Would = { one: Api.DeadView };
  type Dead = { one: Api.DeadView; chosen: boolean; choose: (on: boolean) => void; ask: (verb: Verb, ids: Api.DeadView[]) => void };
  type Ask = { verb: Verb; some: Api.DeadView[]; onClose: () => void; reload: () => void };
  type State = { state: string };
  type Database = { ledger: Api.StatusView['health']['ledger']; size: number | null | undefined };
  type Channels = { known: Api.ChannelView[] };
  type Nodes = { nodes: Api.NodeView[]; reload: () => void };
  type Found = { list: Api.SearchList };
  type Explained = { found: Api.ExplainView };
  type Rules = { rules: Api.RuleView[] };
  type Ruling = { word: string | null | undefined };
  type Requests = { session: Session | null };
  type OneRequest = { id: string; session: Session | null };
  type Start = { onClose: () => void };
  type TasksRow = { task: Api.TaskShape };
  type Task = { id: string; session: Session | null };
  type States = { story: Api.StoryView };
  type Attempt = { attempt: Api.AttemptView; story: Api.StoryView };
  type Replies = { story: Api.StoryView };
  type Acts = { story: Api.StoryView; reload: () => void };
  type Why = { id: string; session: Session | null };
}
