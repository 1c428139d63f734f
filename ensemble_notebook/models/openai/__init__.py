"""Models behind the OpenAI protocol: the client, its requests and its connections."""
