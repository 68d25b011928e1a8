"""What there is in one forge, shared by its handlers, and what belongs to what. Nothing here acts."""

from dataclasses import dataclass

from gateway.forge.activity import Activity
from gateway.forge.app import App
from gateway.forge.faults import Faults
from gateway.forge.git_process import GitProcesses
from gateway.forge.journal import Journal
from gateway.forge.repositories import Git, Repositories, Repository
from gateway.forge.tokens import Clock, InstallationToken, Tokens


@dataclass(slots=True)
class State:
    """One forge. Changes: app, when it is registered."""

    clock: Clock
    git: Git
    processes: GitProcesses
    repositories: Repositories
    tokens: Tokens
    faults: Faults
    journal: Journal
    activity: Activity
    app: App | None = None

    def reaches(self, token: InstallationToken, repository: Repository) -> bool:
        """Is the repository in the token's scope, and is the App still installed there?"""
        installation = self.repositories.installation_of(repository)
        return (
            installation is not None
            and installation.id == token.installation
            and not installation.suspended
            and token.reaches(repository)
        )
