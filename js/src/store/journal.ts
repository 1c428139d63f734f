// Which spans changed, in order, so that whoever keeps something of each span looks again at those alone. Any number of
// readers, each with a position of its own; one that is too far behind is told to look at everything.

const LONGEST = 50_000;

export class Journal {
  #spans: string[] = [];
  #start = 0;

  /** The position after the latest change. */
  get end(): number {
    return this.#start + this.#spans.length;
  }

  add(span: string): void {
    if (this.#spans.length >= LONGEST) {
      this.#start += LONGEST / 2;
      this.#spans = this.#spans.slice(LONGEST / 2);
    }
    this.#spans.push(span);
  }

  /** Everything may have changed: nobody can go on from where they are. */
  clear(): void {
    this.#start = this.end + 1;
    this.#spans = [];
  }

  /** What changed from a position on; null where that is no longer known. */
  since(position: number): readonly string[] | null {
    return position < this.#start ? null : this.#spans.slice(position - this.#start);
  }
}
