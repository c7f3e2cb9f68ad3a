"""The foreign-key join of KIP-213, one file per hop: right change, send, receive, response, emit."""
