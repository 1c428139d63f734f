// The button that stops the run (W13): it keeps what is done.

import { useSignal } from "@preact/signals";
import { Icon } from "../elements/icon";
import type { KernelConnection } from "../kernel/connection";
import type { Run } from "../wire/rows";

/** Stop promises nothing unless the kernel answered while it works (W13). */
export function Stop({ connection, run }: { connection: KernelConnection; run: Run | null }) {
  const isExplained = useSignal(false);
  if (run?.status !== "running" || run.is_stoppable === false || connection.isLost.value) return null;
  const control = connection.control.value;
  if (connection.isStopping.value) return <button class="et-stop" disabled><Icon name="stop" size={12} />Stopping…</button>;
  const hint = "To stop, press the notebook's ■ stop button";
  const isSilent = control === "silent";
  return (
    <>
      {isSilent && <span class={isExplained.value ? "et-hint et-hint-open" : "et-hint"}>{hint}</span>}
      <button class="et-stop" aria-disabled={control !== "live"} title={isSilent ? hint : "Stop the run, keep what is done"}
        onClick={() => (isSilent ? (isExplained.value = !isExplained.value) : connection.stop())}>
        <Icon name="stop" size={12} />Stop
      </button>
    </>
  );
}
