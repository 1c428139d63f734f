// Where stands what a person tries: the forks below the run, and the editor in the drawer.

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";
import { loadTryouts } from "./load-tryouts";
import type { Asked } from "./tryout-root";

type Tryouts = typeof import("./tryout-root");

interface Props {
  view: View;
  connection: KernelConnection;
}

function useTryouts(isWanted: boolean): Tryouts | null {
  const [tryouts, setTryouts] = useState<Tryouts | null>(null);
  useEffect(() => {
    if (isWanted && !tryouts) void loadTryouts().then(setTryouts);
  }, [isWanted]);
  return tryouts;
}

export function ForksPlace(shown: Props & { change: number }): VNode | null {
  const tryouts = useTryouts(shown.connection.tryout.peek() !== null);
  return tryouts && <tryouts.Forks {...shown} />;
}

export function EditorPlace(shown: Props & { asked: Asked | null; onClose: () => void }): VNode | null {
  const tryouts = useTryouts(shown.asked !== null);
  return tryouts && shown.asked && <tryouts.Editor {...shown} asked={shown.asked} />;
}
