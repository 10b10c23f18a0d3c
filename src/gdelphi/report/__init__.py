"""The morning report: `content` says what it consists of, all other modules gather or show that."""
