// Messages on their way into the store. Each change of the store has all views of the run arranged and drawn anew, which
// takes longer the more rows there are. A page that is slower than its kernel would draw one message after the other, ever
// later, and show what was a minute ago as now. So where drawing takes long, the page rests for as long, and then takes
// in all that has come meanwhile as one change.

/** What takes less needs no rest. */
const QUICK_MS = 8;
const LONGEST_REST_MS = 1000;
/** A page that nobody sees has no frames. */
const FRAME_LIMIT_MS = 250;

export class PacedQueue<Item> {
  readonly #take: (items: readonly Item[]) => void;
  readonly #clock: () => number;
  #waiting: Item[] = [];
  #isResting = false;

  /** `take` takes in items, in the order in which they came; it returns when all is arranged, which `clock` tells. */
  constructor(take: (items: readonly Item[]) => void, clock: () => number) {
    this.#take = take;
    this.#clock = clock;
  }

  /** Takes an item in at once, or after the rest. */
  add(item: Item): void {
    this.#waiting.push(item);
    if (!this.#isResting) this.flush();
  }

  /** Takes in what waits, now. */
  flush(): void {
    if (this.#waiting.length === 0) return;
    const items = this.#waiting;
    this.#waiting = [];
    const began = this.#clock();
    this.#take(items);
    if (this.#isResting || this.#clock() - began < QUICK_MS) return;
    this.#isResting = true;
    afterFrame(() => setTimeout(() => {
      this.#isResting = false;
      this.flush();
    }, Math.min(this.#clock() - began, LONGEST_REST_MS)));
  }
}

/** Calls `act` once what has changed is drawn. */
function afterFrame(act: () => void): void {
  let isDone = false;
  const once = (): void => {
    if (!isDone) act();
    isDone = true;
  };
  requestAnimationFrame(() => setTimeout(once));
  setTimeout(once, FRAME_LIMIT_MS);
}
