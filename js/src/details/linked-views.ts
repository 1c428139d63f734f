// Two views of runs on one time axis that show the same stretch of it, the same spans and the same time (F4).

import { type Extent, fitRun } from "../layout/time-scale";
import type { View } from "../view/view";
import type { Places } from "./fork-rows";

const across = (spans: readonly string[], from: Places, to: Places): string[] => spans.flatMap((span) => to.find(span, from) ?? []);

/** Links the view of a run and that of a fork of it until the signal aborts. */
export function linkViews(origin: View, fork: View, places: { own: Places; origins: Places }, end: AbortSignal): void {
  const stops: (() => void)[] = [];
  let isBusy = false;
  const quietly = (act: () => void) => (): void => {
    if (isBusy) return;
    isBusy = true;
    act();
    isBusy = false;
  };
  const both = [[origin, fork], [fork, origin]] as const;
  const length = (): number => Math.max(origin.now, fork.now);
  /** Another function each time, so that what is drawn is fitted again. */
  const fitBoth = (): ((extent: Extent) => ReturnType<typeof fitRun>) => (extent) => fitRun({ ...extent, end: Math.max(extent.end, length()) });
  let fit = fitBoth();
  for (const [one, other] of both) {
    stops.push(one.fold.subscribe(() => one.fold.peek() !== fit && (one.fold.value = fit)));
    stops.push(one.follow.subscribe(quietly(() => (other.follow.value = one.follow.peek()))));
    stops.push(one.window.subscribe(quietly(() => one.follow.peek() === "off" && (other.window.value = one.window.peek()))));
    const { spans, time } = one.present.selection;
    const [from, to] = one === origin ? [places.origins, places.own] : [places.own, places.origins];
    stops.push(spans.subscribe(quietly(() => {
      const [found, shared] = [across(spans.peek(), from, to), across(other.present.selection.spans.peek(), to, from)];
      // What the other one has alone stays selected there.
      if (found.length > 0 && shared.join() !== spans.peek().join()) other.selectAll(found);
    })));
    stops.push(time.subscribe(quietly(() => {
      const ms = time.peek();
      other.time.value = ms !== null && other.present.isOver && ms < other.present.elapsed(0) ? ms : null;
    })));
    stops.push(one.hasPlayhead.subscribe(quietly(() => (other.hasPlayhead.value = one.hasPlayhead.peek()))));
  }
  stops.push(fork.present.version.subscribe(() => {
    if (fork.now <= origin.now && fork.present.isOver) return;
    fit = fitBoth();
    for (const one of [origin, fork]) one.fold.value = fit;
  }));
  end.addEventListener("abort", () => {
    for (const stop of stops) stop();
    origin.fold.value = null;
  });
}
