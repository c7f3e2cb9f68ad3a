"""Plans for people and programs: as text, as JSON and as a picture."""
