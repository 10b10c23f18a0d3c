"""What several test files share: worlds, archives, servers, browsers."""
