"""The foreign-key join of KIP-213, one hop a file: send, receive, right change, response, emit."""
