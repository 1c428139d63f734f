"""What a run leaves behind: the event stream folded into spans, sums, frames and the messages to the timeline.

Knows the domain only: not the engine that emits the events, nor a model, a notebook or a widget.
"""
