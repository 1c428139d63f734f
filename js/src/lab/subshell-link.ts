// A second connection to a kernel, with a subshell of its own: what is sent through it is handled while a cell keeps the
// main thread busy, also in a page that was reloaded meanwhile. JupyterLab's own connection can't do that: after a reload
// it waits for an answer on the shell channel, which comes when the cell ends.

import type { Json, Kernel, KernelManager, KernelModel, Message } from "./jupyter";

const CONNECT_MS = 20_000;
const REPLY_MS = 20_000;

export class SubshellLink {
  private constructor(
    readonly connection: Kernel,
    readonly subshell: string,
    /** Of the kernel's process: another one after a restart. */
    readonly process: string,
  ) {}

  /** The link, or null where the kernel has no subshells or does not answer. */
  static async open(kernels: KernelManager, model: KernelModel): Promise<SubshellLink | null> {
    // It handles no comms: it would answer those of widgets that it does not know by closing them.
    const connection = kernels.connectTo({ model: { id: model.id, name: model.name }, handleComms: false });
    try {
      await within(CONNECT_MS, connected(connection));
      const info = await within(REPLY_MS, ask(connection, "control", "kernel_info_request", {}));
      const features = info.content.supported_features;
      if (Array.isArray(features) && features.includes("kernel subshells")) {
        const reply = await within(REPLY_MS, ask(connection, "control", "create_subshell_request", {}));
        if (typeof reply.content.subshell_id === "string") {
          return new SubshellLink(connection, reply.content.subshell_id, reply.header.session);
        }
      }
    } catch {
      // No answer: the kernel is gone, restarts, or is of a kind that answers nothing here.
    }
    connection.dispose();
    return null;
  }

  /** Whether comms can be opened for a target. A kernel that does not know it would log an error when one is. */
  async knows(target: string): Promise<boolean> {
    const message = request(this.connection, "shell", "comm_info_request", { target_name: target }, this.subshell);
    const reply = await within(REPLY_MS, this.connection.sendShellMessage(message, true, true).done);
    return Object.keys((reply.content.comms ?? {}) as Json).length > 0;
  }

  /** Sends what nobody waits for. Throws when the connection is gone. */
  send(type: "comm_open" | "comm_msg" | "comm_close", content: Json): void {
    this.connection.sendShellMessage(request(this.connection, "shell", type, content, this.subshell), false, true);
  }

  close(): void {
    if (this.connection.isDisposed) return;
    try {
      this.connection.sendControlMessage(
        request(this.connection, "control", "delete_subshell_request", { subshell_id: this.subshell }), false, true,
      );
    } catch {
      // The kernel is gone, and its subshells with it.
    }
    this.connection.dispose();
  }
}

function connected(connection: Kernel): Promise<void> {
  if (connection.connectionStatus === "connected") return Promise.resolve();
  return new Promise((resolve) => {
    const look = (_: Kernel, status: string): void => {
      if (status !== "connected") return;
      connection.connectionStatusChanged.disconnect(look);
      resolve();
    };
    connection.connectionStatusChanged.connect(look);
  });
}

function ask(connection: Kernel, channel: "control", type: string, content: Json): Promise<Message> {
  return connection.sendControlMessage(request(connection, channel, type, content), true, true).done;
}

function request(connection: Kernel, channel: string, type: string, content: Json, subshell?: string): unknown {
  return {
    header: {
      msg_id: makeId(),
      msg_type: type,
      username: connection.username,
      session: connection.clientId,
      date: new Date().toISOString(),
      version: "5.2",
      ...(subshell === undefined ? {} : { subshell_id: subshell }),
    },
    parent_header: {},
    metadata: {},
    content,
    channel,
    buffers: [],
  };
}

function within<T>(ms: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no answer in time")), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** A random id. (`crypto.randomUUID` is missing on pages that were served without encryption.) */
export function makeId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
