"""The foreign-key join of KIP-213, one file per hop: send, receive, right change, response, emit."""
