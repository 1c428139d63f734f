// The switches of the panels below the toolbar, and the groups they stand in.

import type { ComponentChildren } from "preact";
import { LateIcon, type LateIconName } from "../elements/late-icon";

/** Some switches under one name. */
export const Choices = ({ name, children }: { name: string; children: ComponentChildren }) => (
  <div class="et-choices" role="group" aria-label={name}><span class="et-choices-name" aria-hidden="true">{name}</span>{children}</div>
);

interface ChoiceProps {
  name: string;
  act: () => void;
  icon?: LateIconName;
  /** The key that does the same. */
  keys?: string;
  title?: string;
  /** Of what is on or off. */
  isOn?: boolean;
}

export const Choice = ({ name, act, icon, keys, title = name, isOn }: ChoiceProps) => (
  <button class="et-choice" title={title} aria-pressed={isOn} aria-keyshortcuts={keys} onClick={act}>
    {icon && <LateIcon name={icon} />}{name}{keys && <kbd aria-hidden="true">{keys}</kbd>}
  </button>
);
