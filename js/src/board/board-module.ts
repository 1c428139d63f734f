// The board where JupyterLab and Notebook 7 have our extension: it is shown, connected and saved as the views of runs are.

import type { ViewModule } from "../lab/view-module";
import { isObject } from "../wire/guards";
import { BoardConnection } from "./board-connection";
import type { ShowTimeline } from "./board-parts";
import { mountBoard } from "./board-root";
import { readBoardRows } from "./board-rows";

type Views = Omit<ViewModule, "css">;

const isCount = (value: unknown): value is number => typeof value === "number" && value >= 0;

/** `views` show the timelines of runs that are opened below the board; `content` is what the notebook has of it. */
export function boardModule(views: Views, content: unknown): Views {
  const known = isObject(content) ? content : {};
  const saved = readBoardRows(known.rows);
  const common = { saved, total: isCount(known.total) ? known.total : saved.length, most: isCount(known.most) ? known.most : null };
  return {
    // What the renderer holds is handed back to this module alone.
    connect: (send) => new BoardConnection(send as never) as never,
    save: () => null,
    callOf: () => null,
    watch: () => () => undefined,
    showSaved: (place) => mountBoard(place, { ...common, connection: null, writeBelow: null, showTimeline: null }),
    showLive(place, connection, writeBelow) {
      const showTimeline: ShowTimeline = (below, board, feedId) => {
        const joined = board.join(feedId, (message, buffers) => timeline.receive(message, buffers));
        const timeline = views.connect((message) => joined.send(message));
        const end = views.showLive(below, timeline, writeBelow);
        timeline.catchUp();
        return Promise.resolve(() => {
          end();
          timeline.close();
          joined.leave();
        });
      };
      return mountBoard(place, { ...common, connection: connection as unknown as BoardConnection, writeBelow, showTimeline });
    },
  };
}
