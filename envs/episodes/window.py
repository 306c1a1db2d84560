"""A window that shows pictures of an episode; needs pygame."""

from typing import Any

import numpy as np
import numpy.typing as npt

from envs.types import MurmurationError


class Window:
    """A window that is opened by the first picture. Closing it by hand stops the pictures, not the episode.

    Args:
        title: its title.
        fps: most pictures per second; the caller waits for the next one.

    Raises:
        MurmurationError: pygame is not installed.
    """

    def __init__(self, title: str, fps: int) -> None:
        try:
            import pygame
        except ImportError as error:
            raise MurmurationError(
                "render_mode human: pygame is not installed; install it with pip install 'murmuration[render]', or "
                "choose rgb_array or ansi"
            ) from error
        self._pygame: Any = pygame
        self._title, self._fps = title, fps
        self._screen: Any = None
        self._clock: Any = None
        self.closed = False

    def show(self, frame: npt.NDArray[np.uint8]) -> None:
        """Show a picture, uint8[height, width, 3], and handle the window's events."""
        if self.closed:
            return
        pygame = self._pygame
        if self._screen is None or self._screen.get_size() != frame.shape[1::-1]:
            pygame.display.init()
            pygame.display.set_caption(self._title)
            self._screen = pygame.display.set_mode(frame.shape[1::-1])
            self._clock = pygame.time.Clock()
        surface = pygame.surfarray.make_surface(np.swapaxes(frame, 0, 1))
        self._screen.blit(surface, (0, 0))
        pygame.display.flip()
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            self.close()
            return
        self._clock.tick(self._fps)

    def close(self) -> None:
        """Close the window."""
        self.closed = True
        if self._screen is not None:
            self._pygame.display.quit()
            self._screen = None
