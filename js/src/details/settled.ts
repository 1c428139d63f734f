// What takes a while to compute, computed once things have come to rest.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

/**
 * What `make` gives for the inputs as they are. Where `waitMs` is not 0, at most once in so many milliseconds: until then it
 * is what it was, at first undefined.
 */
export function useSettled<T>(make: () => T, inputs: readonly unknown[], waitMs: number): T | undefined {
  const atOnce = useMemo(() => (waitMs === 0 ? make() : undefined), [...inputs, waitMs === 0]);
  const [settled, setSettled] = useState<{ readonly value: T }>();
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const latest = useRef(make);
  latest.current = make;
  useEffect(() => {
    if (waitMs === 0 || timer.current !== undefined) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      setSettled({ value: latest.current() });
    }, waitMs);
  }, inputs as unknown[]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return waitMs === 0 ? atOnce : settled?.value;
}
